"""OpenAI Responses."""

from drivetrain.proxy.dialects.openai import error
from drivetrain.proxy.dialects.openai_responses.body import SUPPORT
from drivetrain.proxy.dialects.openai_responses.read import read
from drivetrain.proxy.dialects.openai_responses.write import document, writer

NAME = "OpenAI Responses"
PATH = "/v1/responses"

__all__ = ["NAME", "PATH", "SUPPORT", "document", "error", "read", "writer"]
