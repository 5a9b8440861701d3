"""Token trees: what sequences share is computed once."""
