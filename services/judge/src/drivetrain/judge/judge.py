"""What the judge does with each event: read what it needs, ask the chain, store the score."""

import time
from collections.abc import Callable, Sequence

import stamina

from drivetrain.common.bus.base import Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import Event, Signal, TurnFollowed, TurnRecorded, TurnScored
from drivetrain.judge import joins
from drivetrain.judge.chain import Chain, Judgement
from drivetrain.judge.meters import Meters
from drivetrain.judge.sessions import Session, Sessions
from drivetrain.judge.sources.base import Case


class _NotYet(RuntimeError):
    """A signal came before its turn."""


class Judge:
    """Handles deliveries of next states and signals. `clock` gives the time in seconds since the epoch."""

    def __init__(
        self,
        name: str,
        chain: Chain,
        sessions: Sessions,
        meters: Meters,
        turn_wait_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._chain = chain
        self._sessions = sessions
        self._meters = meters
        self._turn_wait_s = turn_wait_s
        self._clock = clock

    async def handle(self, delivery: Delivery) -> None:
        """Judge what a delivery brings and store the result; the caller acks afterwards.

        Raises:
            Unprocessable: this event can never be judged; the message says why.
        """
        started = time.perf_counter()
        await self._sessions.store(await self.results(delivery.event))
        self._meters.judged(delivery.event, time.perf_counter() - started, self._clock())

    async def results(self, event: Event) -> Sequence[Event]:
        """What a next state or a signal leads to: scores, and the result of a rollout. Nothing is stored.

        Raises:
            Unprocessable: this event can never be judged; the message says why.
        """
        try:
            if isinstance(event, TurnFollowed):
                joins.check_followed(event)
                return [await self._followed(event)] if event.kind != "superseded" else []
            if isinstance(event, Signal):
                joins.check_signal(event)
                return await (self._outcome(event) if event.kind == "outcome" else self._feedback(event))
        except joins.BadEvent as error:
            raise Unprocessable(str(error)) from error
        raise Unprocessable(f"the judge reads next states and signals, not {type(event).__name__}")

    async def _followed(self, followed: TurnFollowed) -> TurnScored:
        session = Session.of(followed)
        signals = await self._sessions.signals(session)
        nameless = any(signal.kind == "feedback" and signal.turn is None for signal in signals)
        looks_back = self._chain.looks_back(joins.case_of(followed, signals))
        turns = await self._kept(session) if nameless or looks_back else []
        about = [signal for signal in signals if joins.concerns(signal, followed.turn, turns)]
        case = joins.in_session(joins.case_of(followed, about), followed.turn, turns)
        return await self._score(followed, followed.n, case, followed.trainable)

    async def _feedback(self, signal: Signal) -> list[Event]:
        session = Session.of(signal)
        turn, turns = await self._turn_of(signal)
        followed = await self._sessions.followed(session, turn.turn)
        signals = _with(signal, await self._sessions.signals(session))
        about = [other for other in signals if joins.concerns(other, turn.turn, turns)]
        case = joins.in_session(joins.case_of_turn(turn, followed, about), turn.turn, turns)
        return [await self._score(turn, joins.revision_of(signal), case, joins.trainable(turn))]

    async def _outcome(self, signal: Signal) -> list[Event]:
        session = Session.of(signal)
        turns = await self._kept(session)
        events: list[Event] = []
        signals = _with(signal, await self._sessions.signals(session)) if turns and signal.value is not None else []
        for turn in joins.main_turns(turns) if signals else ():
            about = [other for other in signals if joins.concerns(other, turn.turn, turns)]
            if not joins.concerns(signal, turn.turn, turns):
                continue
            followed = await self._sessions.followed(session, turn.turn)
            case = joins.in_session(joins.case_of_turn(turn, followed, about), turn.turn, turns)
            events.append(await self._score(turn, joins.revision_of(signal), case, joins.trainable(turn)))
        if signal.rollout is not None:
            events.append(joins.rollout_scored(signal, turns, at=self._clock()))
        return events

    async def _kept(self, session: Session) -> list[TurnRecorded]:
        """The recorded turns of a session without the attempts that came to nothing."""
        turns = await self._sessions.turns(session)
        return joins.kept(turns, await self._sessions.followed(session)) if turns else []

    async def _turn_of(self, signal: Signal) -> tuple[TurnRecorded, list[TurnRecorded]]:
        """The turn that feedback is about, waiting a while for it: events of a session come in any order."""
        retrying = stamina.retry_context(
            on=_NotYet, attempts=None, timeout=self._turn_wait_s, wait_initial=0.05, wait_max=1.0, wait_jitter=0.1
        )
        try:
            async for attempt in retrying:
                with attempt:
                    session = Session.of(signal)
                    turns = await (self._sessions.turns(session) if signal.turn else self._kept(session))
                    return _meant(signal, turns), turns
        except _NotYet as error:
            raise Unprocessable(f"{error}: it was not recorded, or is kept no more") from error
        raise AssertionError("a retry context ends with a result or an error")

    async def _score(self, turn: TurnFollowed | TurnRecorded, n: int, case: Case, may_train: bool) -> TurnScored:
        judgement: Judgement = await self._chain.judge(case)
        self._meters.scored(judgement)
        return joins.scored(turn, n, judgement, judge=self._name, may_train=may_train, at=self._clock())


def _meant(signal: Signal, turns: Sequence[TurnRecorded]) -> TurnRecorded:
    named = next((turn for turn in turns if turn.turn == signal.turn), None)
    found = joins.last_turn(turns, signal.at) if signal.turn is None else named
    if found is None:
        raise _NotYet(f"session {signal.session} has no turn {signal.turn or 'at all'}")
    return found


def _with(signal: Signal, known: Sequence[Signal]) -> list[Signal]:
    """The signals known, this one among them: a direct read may lag behind its delivery."""
    return [*(other for other in known if other.id != signal.id), signal]
