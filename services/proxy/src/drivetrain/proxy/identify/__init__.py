"""Who is speaking: the session by key, path, header, body or the harness's own marks; its threads; main or side."""

from drivetrain.proxy.identify.identifier import Identifier

__all__ = ["Identifier"]
