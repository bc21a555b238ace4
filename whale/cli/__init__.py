"""The command ``whale``."""
