"""One attempt at one rollout: what it needs, how it runs in its sandbox, and what its work is worth."""
