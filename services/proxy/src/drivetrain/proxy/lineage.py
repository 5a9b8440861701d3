"""Which recorded turn a request continues: rolling digests over what messages mean, not over their bytes.

Harnesses send history back re-serialised: text trimmed, tool arguments in other whitespace, tool ids rewritten,
reasoning dropped. Two messages are the same when role, trimmed text and parsed tool calls are.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from drivetrain.common.events import Message

_encoder = msgspec.msgpack.Encoder(order="deterministic")


def text_of(content: object) -> str:
    """The text of a message's content: a string, a list of text parts, or nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return ""


def arguments_of(arguments: object) -> object:
    """A tool call's arguments as data; a string that is not JSON stays a trimmed string."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments.strip()


def canonical(message: Message) -> bytes:
    """What of a message decides whether two are the same."""
    role = "system" if message["role"] == "developer" else message["role"]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    return _encoder.encode([role, text_of(message.get("content")).strip(), calls])


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


def next_state(messages: Sequence[Message]) -> list[Message]:
    """What the world sent after a reply: all messages up to the next reply."""
    end = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    return list(messages[:end])


def digest_of(value: object) -> str:
    """A digest of JSON-like data, the same for any order of keys."""
    return hashlib.blake2b(_encoder.encode(value), digest_size=16).hexdigest()


def _call(call: dict[str, Any]) -> list[object]:
    function = call.get("function") or {}
    return [function.get("name"), arguments_of(function.get("arguments"))]
