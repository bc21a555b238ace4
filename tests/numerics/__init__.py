"""Small TF1 scripts, run by plain TensorFlow and by Whale on several devices, compared value by value."""
