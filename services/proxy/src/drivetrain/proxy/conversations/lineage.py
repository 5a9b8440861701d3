"""Which recorded turn a request continues: rolling digests over what messages mean, not over their bytes.

Harnesses send history back re-serialised: text trimmed, tool arguments in other whitespace and with other numerals,
tool ids rewritten or made up, reasoning dropped, cache marks moved, one text as a list of parts. Two messages are the
same when role, trimmed text, parsed tool calls and attachments are.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from drivetrain.common.events import Message

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()
_EXACT = 2**53
_CACHE_MARK = "cache_control"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def text_of(content: object) -> str:
    """The text of a message's content: a string, a list of text parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return ""


def arguments_of(arguments: object) -> object:
    """A tool call's arguments as data; a string that is not JSON stays a trimmed string.

    Half a surrogate pair, which JSON can say and no text can hold, becomes a question mark.
    """
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
        if _SURROGATE.search(arguments):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        return value
    except (ValueError, RecursionError):
        return arguments.strip()


def canonical(message: Message) -> bytes:
    """What of a message decides whether two are the same."""
    role, content = message["role"], message.get("content")
    meant: list[object] = ["system" if role == "developer" else role, text_of(content).strip()]
    if calls := message.get("tool_calls"):
        meant.append([_call(call) for call in calls])
    if isinstance(content, list) and (attached := [_attached(part) for part in content if "text" not in part]):
        meant.append({"attached": attached})
    return _encoder.encode(meant)


def rolling(scope: str, messages: Iterable[Message]) -> list[str]:
    """The digest of every prefix of a conversation, from one message to all: `result[i]` covers `messages[: i + 1]`.

    `scope` separates tenants, policies and sessions: digests of different scopes never meet.
    """
    digests, state = [], hashlib.blake2b(scope.encode(), digest_size=16).digest()
    for message in messages:
        state = hashlib.blake2b(state + canonical(message), digest_size=16).digest()
        digests.append(state.hex())
    return digests


def extend(digest: str, message: Message) -> str:
    """The digest of a conversation that has one more message."""
    return hashlib.blake2b(bytes.fromhex(digest) + canonical(message), digest_size=16).digest().hex()


def candidates(digests: Sequence[str], messages: Sequence[Message]) -> list[str]:
    """The prefixes that could be a recorded turn (they end in a reply and something follows), longest first."""
    ends = [i for i, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return [digests[i] for i in reversed(ends)]


def digest_of(value: object) -> str:
    """A digest of JSON-like data, the same for any order of keys."""
    return hashlib.blake2b(_encoder.encode(value), digest_size=16).hexdigest()


def _call(call: dict[str, Any]) -> list[object]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = _numerals(_decoder.decode(arguments))
        except (msgspec.DecodeError, RecursionError):
            return [function.get("name"), arguments.strip()]
    return [function.get("name"), {"": arguments}]


def _numerals(value: Any) -> Any:
    """Numbers as they are after a passage through JavaScript: 1.0 is 1, and beyond 2^53 the nearest double counts."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return int(float(value)) if abs(value) < 1 << 1000 else str(value)
    if isinstance(value, dict):
        return {name: _numerals(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numerals(inner) for inner in value]
    return value


def _attached(part: Any) -> object:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name != _CACHE_MARK}
