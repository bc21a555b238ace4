"""Session binding: runs of the user's sessions become runs of a rewritten graph."""
