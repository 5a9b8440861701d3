"""The orchestrator: runs a requested rollout in a lease of its own, grades it apart, and reports the outcome."""
