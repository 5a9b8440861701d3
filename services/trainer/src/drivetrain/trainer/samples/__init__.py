"""From a score to a sample: the recorded tokens of a turn, and its prompt with hindsight."""
