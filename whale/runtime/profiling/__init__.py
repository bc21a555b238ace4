"""What the ops of a training step really take on one device."""
