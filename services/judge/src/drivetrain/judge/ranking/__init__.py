"""Rollouts of a task without a verifier, ranked against each other when their group is complete."""
