"""How both buses turn a stored message into an event, or into a dead letter."""

from collections.abc import Mapping

from drivetrain.common.events import DeadLetter, Event, decode, event_type
from drivetrain.common.telemetry.traces import HEADER, current_traceparent


def read(subject: str, payload: bytes) -> Event:
    """The event stored under a subject.

    Raises:
        InvalidEvent: dead-letter it.
        NewerVersion: stop the consumer.
    """
    return decode(payload, event_type(subject))


def letter(
    *,
    stream: str,
    consumer: str,
    subject: str,
    sequence: int,
    reason: str,
    payload: bytes,
    headers: Mapping[str, str],
    at: float,
) -> DeadLetter:
    """The dead letter of a message, with everything needed to replay it."""
    return DeadLetter(
        stream=stream,
        consumer=consumer,
        subject_of=subject,
        sequence=sequence,
        reason=reason,
        payload=payload,
        headers=dict(headers),
        at=at,
    )


def with_trace(headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers to send: the caller's, and the current trace context."""
    sent = dict(headers or {})
    if parent := current_traceparent():
        sent.setdefault(HEADER, parent)
    return sent
