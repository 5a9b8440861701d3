"""OpenAI Chat Completions."""

from drivetrain.proxy.dialects.openai import error
from drivetrain.proxy.dialects.openai_chat.body import SUPPORT
from drivetrain.proxy.dialects.openai_chat.read import read
from drivetrain.proxy.dialects.openai_chat.write import document, writer

NAME = "OpenAI Chat Completions"
PATH = "/v1/chat/completions"

__all__ = ["NAME", "PATH", "SUPPORT", "document", "error", "read", "writer"]
