"""What samples the tokens, one module for each kind of engine, and what it is told."""
