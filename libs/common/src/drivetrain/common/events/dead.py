"""What could not be processed, kept whole so that it can be looked at and replayed."""

from typing import ClassVar

from drivetrain.common.events.base import Event


class DeadLetter(Event, frozen=True, kw_only=True):
    """A message that a consumer gave up on, with the reason and the original payload."""

    STREAM: ClassVar[str] = "DEAD"
    PREFIX: ClassVar[str] = "dead"
    ONCE: ClassVar[bool] = False

    stream: str
    consumer: str
    subject_of: str
    sequence: int
    reason: str
    payload: bytes
    headers: dict[str, str] = {}
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.stream, self.consumer]
