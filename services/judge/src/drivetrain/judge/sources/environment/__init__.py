"""The environment as a source: tool results, read by typed rules. `families` holds the rules, as data."""

from drivetrain.judge.sources.environment.source import Environment

__all__ = ["Environment"]
