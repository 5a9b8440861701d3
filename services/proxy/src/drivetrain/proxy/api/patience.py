"""What "later" must be called, so that a harness comes back instead of giving up."""

from collections.abc import Mapping

QUIT_ON_429 = ("codex",)
"""Harnesses that end at once on 429 but repeat on 5xx, by how their `originator` or `user-agent` header begins."""


def status_of(status: int, headers: Mapping[str, str]) -> int:
    """The status that says the same to this client: 503 for 429 where that would end it. Header names in lower case."""
    names = (headers.get(name, "").lower() for name in ("originator", "user-agent"))
    if status == 429 and any(name.startswith(QUIT_ON_429) for name in names):
        return 503
    return status
