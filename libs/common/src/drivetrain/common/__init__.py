"""What every service shares: events, bus, settings, telemetry, store and lifecycle. It imports no service."""

__version__ = "0.1.0"
