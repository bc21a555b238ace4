"""The public scripts: running them plain and under ``whale run``, and comparing what they fetched."""
