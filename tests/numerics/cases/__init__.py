"""The cases: one topic a file; each function is the body of a small TF1 training script."""
