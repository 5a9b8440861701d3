"""How both buses turn a stored message into an event, or into a dead letter."""

from collections.abc import Mapping

from drivetrain.common.bus.base import Stored
from drivetrain.common.events import DeadLetter, Event, InvalidEvent, NewerVersion, decode, event_type
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.telemetry.metrics import Metrics
from drivetrain.common.telemetry.traces import HEADER, current_traceparent

LEFT_OUT = Metrics("bus").counter("replay_left_out", "Stored messages that could not be read again", ["family"])
log = get_logger("bus")


def read(subject: str, payload: bytes) -> Event:
    """The event stored under a subject.

    Raises:
        InvalidEvent: dead-letter it.
        NewerVersion: stop the consumer.
    """
    return decode(payload, event_type(subject))


def readable(subject: str, payload: bytes, sequence: int, headers: dict[str, str]) -> Stored | None:
    """A stored event, or None if this code cannot read it: the consumers of its stream deal with that."""
    try:
        return Stored(read(subject, payload), subject, sequence, headers)
    except (InvalidEvent, NewerVersion) as error:
        left_out(subject, sequence, error)
        return None


def left_out(subject: str, sequence: int, error: Exception) -> None:
    """Say and count that a replay goes on without a stored message."""
    LEFT_OUT.labels(subject.partition(".")[0]).inc()
    log.warning("left out of a replay", subject=subject, sequence=sequence, reason=str(error))


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
