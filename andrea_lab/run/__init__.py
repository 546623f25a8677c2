"""The run directory and the loss log."""
