"""Sampled token ids to what the caller sees: text, reasoning and tool calls, as they come."""
