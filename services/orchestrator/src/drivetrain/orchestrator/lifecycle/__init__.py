"""The life of rollouts: which is next, where each stands, how it ends, and how it goes on after a death."""
