"""Gemini's generateContent and streamGenerateContent."""

from drivetrain.proxy.dialects.gemini.body import SUPPORT
from drivetrain.proxy.dialects.gemini.errors import error
from drivetrain.proxy.dialects.gemini.read import read, read_count
from drivetrain.proxy.dialects.gemini.write import document, writer

NAME = "Gemini generateContent"
PATH = "/v1beta/models/{model}:generateContent"
STREAM_PATH = "/v1beta/models/{model}:streamGenerateContent"
GENERATE = (PATH, STREAM_PATH)
COUNT_PATH = "/v1beta/models/{model}:countTokens"


def also(path: str) -> str:
    """The same path under the API's other name of itself."""
    return path.replace("/v1beta/", "/v1/")


__all__ = [
    "COUNT_PATH",
    "GENERATE",
    "NAME",
    "PATH",
    "STREAM_PATH",
    "SUPPORT",
    "also",
    "document",
    "error",
    "read",
    "read_count",
    "writer",
]
