"""What keeps a judge model from costing too much, and its absence from costing a score."""
