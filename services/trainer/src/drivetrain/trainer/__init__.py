"""The trainer: turns that the judge scored become optimiser steps, and steps become checkpoints."""

__version__ = "0.1.0"
