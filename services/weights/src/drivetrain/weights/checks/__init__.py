"""What a candidate must pass before it is promoted, one module per check; each is optional."""
