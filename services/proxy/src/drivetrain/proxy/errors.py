"""What a caller is told when a request cannot be honoured; each dialect gives it its own shape."""

_QUOTED = 64


def quoted(value: str) -> str:
    """A caller's own value inside a message, cut where nobody would read on."""
    return repr(value if len(value) <= _QUOTED else value[: _QUOTED - 1] + "…")


class Refused(Exception):
    """A request that is not answered. `param` names the field at fault, `code` is for programs, `retry_after` says in
    how many seconds it is worth another try."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after = retry_after


class ContextExceeded(Refused):
    """The prompt leaves no room for a reply."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            400,
            f"This model's maximum context length is {limit} tokens, and these messages take {tokens}. "
            "Shorten or compact the messages.",
            param="messages",
            code="context_length_exceeded",
        )
        self.tokens, self.limit = tokens, limit
