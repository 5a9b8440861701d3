"""Who may ask, how much, and what of it may be kept: keys, limits, and the masking of secrets in what is recorded."""
