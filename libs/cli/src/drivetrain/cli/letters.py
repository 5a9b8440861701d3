"""The dead-letter stream: what is in it, and how a letter is put back where it came from."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from nats.js.errors import APIError, NotFoundError

from drivetrain.cli.errors import CliError
from drivetrain.common.bus.nats import OBJECT_HEADER, STORED_ALREADY, NatsBus
from drivetrain.common.events import DeadLetter, decode

DEAD = DeadLetter.STREAM


@dataclass(frozen=True)
class Letter:
    """A dead letter and its number in the stream, by which commands name it."""

    number: int
    letter: DeadLetter


async def all_letters(bus: NatsBus) -> AsyncIterator[Letter]:
    """Every dead letter, oldest first."""
    number = 0
    while True:
        try:
            message = await bus.js.get_msg(DEAD, seq=number + 1, next=True, subject="dead.>")
        except NotFoundError:
            return
        number = message.seq or 0
        payload = await bus.payload_of(message.data or b"", message.headers or {})
        yield Letter(number, decode(payload, DeadLetter))


async def one_letter(bus: NatsBus, number: int) -> Letter:
    """The dead letter with that number.

    Raises:
        CliError: there is none.
    """
    try:
        message = await bus.js.get_msg(DEAD, seq=number)
    except NotFoundError:
        raise CliError(f"there is no dead letter {number}: see `drivetrain dead list`") from None
    payload = await bus.payload_of(message.data or b"", message.headers or {})
    return Letter(number, decode(payload, DeadLetter))


async def drop(bus: NatsBus, number: int) -> None:
    """Remove a letter for good."""
    await bus.js.delete_msg(DEAD, number)


async def replay(bus: NatsBus, found: Letter) -> None:
    """Put the original back at the end of its stream, so that its consumer sees it anew, and remove the letter.

    The first copy is removed before, because a subject holds one event. Until the new copy is confirmed the letter
    stays: a replay that was interrupted can be repeated.
    """
    dead = found.letter
    await _remove_original(bus, dead)
    headers = {name: value for name, value in dead.headers.items() if not name.startswith("Nats-")}
    headers["Nats-Expected-Last-Subject-Sequence"] = "0"
    payload = b"" if OBJECT_HEADER in headers else dead.payload
    try:
        await bus.js.publish(dead.subject_of, payload, stream=dead.stream, headers=headers)
    except APIError as error:
        if error.err_code != STORED_ALREADY:
            raise CliError(f"{dead.stream} refused dead letter {found.number}: {error.description}") from error
    await drop(bus, found.number)


async def _remove_original(bus: NatsBus, dead: DeadLetter) -> None:
    try:
        original = await bus.js.get_msg(dead.stream, seq=dead.sequence)
        if original.subject == dead.subject_of:
            await bus.js.delete_msg(dead.stream, dead.sequence)
    except NotFoundError:  # expired, or removed by a replay that was interrupted
        return
