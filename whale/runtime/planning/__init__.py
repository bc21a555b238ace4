"""From a script, or a session's graph, to a plan for it."""
