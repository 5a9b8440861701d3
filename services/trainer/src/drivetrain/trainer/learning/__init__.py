"""One optimiser step from a batch of samples."""
