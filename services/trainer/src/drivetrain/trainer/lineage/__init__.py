"""The chain of versions, and what became of each."""
