"""The recorded turns that an event is about. Events of a session come in any order: they are waited for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import stamina

from drivetrain.common.events import Signal, TurnFollowed, TurnRecorded
from drivetrain.judge import joins
from drivetrain.judge.sessions import Session, Sessions

T = TypeVar("T")


class Missing(LookupError):
    """A turn that is not recorded, or kept no more; the message names it."""


class _NotYet(RuntimeError):
    """The same, while there is hope."""


class Turns:
    """See the module. `wait_s`: how long a turn is waited for."""

    def __init__(self, sessions: Sessions, wait_s: float) -> None:
        self._sessions = sessions
        self._wait_s = wait_s

    async def kept(self, session: Session, *, fresh: bool = False) -> list[TurnRecorded]:
        """The recorded turns of a session without the attempts that came to nothing."""
        return joins.kept(*await self._read(session, fresh))

    async def around(self, followed: TurnFollowed) -> list[TurnRecorded]:
        """The same, of the session of a next state, with the turn that it follows among those recorded.

        Raises:
            Missing: it does not come.
        """
        return await self._waiting(partial(self._around, followed))

    async def meant(self, signal: Signal) -> tuple[TurnRecorded, list[TurnRecorded]]:
        """The turn that feedback is about, and those around it.

        Raises:
            Missing: it does not come.
        """
        return await self._waiting(partial(self._meant, signal))

    async def _around(self, followed: TurnFollowed) -> list[TurnRecorded]:
        session = Session.of(followed)
        turns, states = await self._read(session)
        _named(turns, followed.turn, session)
        return joins.kept(turns, states)

    async def _meant(self, signal: Signal) -> tuple[TurnRecorded, list[TurnRecorded]]:
        session = Session.of(signal)
        if signal.turn is not None:
            turns = await self._sessions.turns(session)
            return _named(turns, signal.turn, session), turns
        turns = await self.kept(session)
        if (last := joins.last_turn(turns, signal.at)) is None:
            raise _NotYet(f"session {session.id} has no turn at all")
        return last, turns

    async def _read(self, session: Session, fresh: bool = False) -> tuple[list[TurnRecorded], list[TurnFollowed]]:
        """Turns and next states at the same time: the bus makes one request of them."""
        return await asyncio.gather(
            self._sessions.turns(session, fresh=fresh), self._sessions.followed(session, fresh=fresh)
        )

    async def _waiting(self, act: Callable[[], Awaitable[T]]) -> T:
        retrying = stamina.retry_context(
            on=_NotYet, attempts=None, timeout=self._wait_s, wait_initial=0.05, wait_max=1.0, wait_jitter=0.1
        )
        try:
            async for attempt in retrying:
                with attempt:
                    return await act()
        except _NotYet as error:
            raise Missing(f"{error}: it was not recorded, or is kept no more") from error
        raise AssertionError("a retry context ends with a result or an error")


def _named(turns: Sequence[TurnRecorded], name: str, session: Session) -> TurnRecorded:
    found = next((turn for turn in turns if turn.turn == name), None)
    if found is None:
        raise _NotYet(f"session {session.id} has no turn {name}")
    return found
