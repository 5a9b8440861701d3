"""Is a task one that can be learned from? It reads well, its solution earns 1, and doing nothing does not."""
