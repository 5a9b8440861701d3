"""Bodies as typed requests: what is malformed, unknown or cannot be honoured is refused by name."""

import re
from typing import Annotated, Any, TypeVar

import msgspec

from drivetrain.proxy.dialects.base import Support
from drivetrain.proxy.errors import Refused, quoted

B = TypeVar("B", bound=msgspec.Struct)

_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_WORDS = 300
"""Longest part of an error's words that is told: it may repeat a value of the request."""

_INDEX = re.compile(r"\[[^\]]*\]")


DataUrl = Annotated[str, msgspec.Meta(pattern="^data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/]+=*$")]
"""An image, inside a URL."""

IMAGES = "images for models that read them"
DATA_ALONE = "send the image itself, as data:image/png;base64,… (nothing is fetched for a request)"


class Hints(msgspec.Struct, kw_only=True):
    """Fields in which any dialect's body may say who speaks; see `drivetrain.proxy.turns.Ask`."""

    session_id: str | None = None
    turn_type: str | None = None
    session_done: bool | str | None = None
    prompt_cache_key: str | None = None


HINT_NOTES = {
    "prompt_cache_key": "names the conversation",
    "session_done": "the session ends with this reply",
    "session_id": "the session's name",
    "turn_type": "`side` for titles, compaction and the like",
}


def hints_of(body: Hints, user_id: str | None = None) -> dict[str, str]:
    """What the body says of the speaker, as text."""
    said = {name: getattr(body, name) for name in HINT_NOTES} | {"user_id": user_id}
    return {name: str(value).lower() if value in (True, False) else str(value) for name, value in said.items() if value}


def parse(data: bytes) -> dict[str, Any]:
    """The body as a JSON object without its null fields.

    Raises:
        Refused: it is none.
    """
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON in UTF-8: {error}") from error
    if not isinstance(raw, dict):
        raise Refused(400, "the body must be a JSON object")
    return {name: value for name, value in _recordable(raw).items() if value is not None}


def _recordable(raw: dict[str, Any]) -> dict[str, Any]:
    """The body with integers beyond 64 bits, which no record can hold, as the doubles that JavaScript makes of them.

    Raises:
        Refused: one is too large even for that.
    """
    try:
        msgspec.msgpack.encode(raw)
    except OverflowError:
        try:
            return {name: _doubles(value) for name, value in raw.items()}
        except OverflowError as error:
            raise Refused(400, f"the body has a number that is out of range: {error}") from error
    return raw


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _doubles(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_doubles(inner) for inner in value]
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def typed(raw: dict[str, Any], support: Support, body: type[B]) -> B:
    """The parsed body as a dialect's request.

    Raises:
        Refused: an unknown field, or a value that cannot be honoured.
    """
    for name in raw:
        if name not in body.__struct_encode_fields__ and name not in support.harmless:
            remedy = support.refused.get(name, "leave it out")
            raise Refused(400, f"the field {quoted(name)} is not supported: {remedy}", param=quoted(name)[1:-1])
    try:
        return msgspec.convert(raw, body)
    except msgspec.ValidationError as error:
        path, words = _where(str(error))
        words = words if len(words) <= _WORDS else f"{words[:_WORDS]}…"
        advice = support.refused.get(_INDEX.sub("[]", path))
        words = f"{words}; {advice}" if advice else words
        raise Refused(400, f"{path or 'body'}: {words}", param=path or None) from error


def _where(text: str) -> tuple[str, str]:
    """The path of the field at fault, and what is wrong with it."""
    found = _PATH.search(text)
    path = str(found["path"]) if found else ""
    words = text[: found.start()] if found else text
    if "missing required field" in words:
        path = ".".join(filter(None, (path, words.split("`")[1])))
    elif not path and "`" in words:
        path = words.split("`")[1]
    return path, words
