"""Anthropic Messages."""

from drivetrain.proxy.dialects.anthropic.body import SUPPORT
from drivetrain.proxy.dialects.anthropic.errors import error
from drivetrain.proxy.dialects.anthropic.read import read, read_count
from drivetrain.proxy.dialects.anthropic.write import document, writer

NAME = "Anthropic Messages"
PATH = "/v1/messages"

__all__ = ["NAME", "PATH", "SUPPORT", "document", "error", "read", "read_count", "writer"]
