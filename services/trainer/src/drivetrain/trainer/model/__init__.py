"""The model in training: loading it, and log-probabilities from it."""
