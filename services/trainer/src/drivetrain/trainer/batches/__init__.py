"""From the stream of scores to batches, and which messages are settled."""
