"""The trainer's settings."""
