"""What the judge does with each event: read what it needs, ask the chain, store the score."""

import time
from collections.abc import Callable, Sequence

from drivetrain.common.bus.base import Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import Event, RolloutRef, Signal, TurnFollowed, TurnRecorded, TurnScored
from drivetrain.judge import joins, rollouts
from drivetrain.judge.chain import Chain, Judgement
from drivetrain.judge.meters import Meters
from drivetrain.judge.ranking.rankings import Rankings
from drivetrain.judge.sessions import Session, Sessions
from drivetrain.judge.sources.base import Case
from drivetrain.judge.turns import Missing, Turns


class Judge:
    """Handles deliveries of next states and signals. `clock` gives the time in seconds since the epoch; `rankings` are
    those of groups without a verifier, None if this judge makes none."""

    def __init__(
        self,
        name: str,
        chain: Chain,
        sessions: Sessions,
        meters: Meters,
        turn_wait_s: float,
        clock: Callable[[], float],
        rankings: Rankings | None = None,
    ) -> None:
        self._name = name
        self._chain = chain
        self._sessions = sessions
        self._meters = meters
        self.turns = Turns(sessions, turn_wait_s)
        self._clock = clock
        self._rankings = rankings

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
                return await self._followed(event)
            if isinstance(event, Signal):
                joins.check_signal(event)
                return await (self._outcome(event) if event.kind == "outcome" else self._feedback(event))
        except (joins.BadEvent, Missing) as error:
            raise Unprocessable(str(error)) from error
        raise Unprocessable(f"the judge reads next states and signals, not {type(event).__name__}")

    async def _followed(self, followed: TurnFollowed) -> list[Event]:
        if followed.kind == "superseded" and followed.rollout is None:
            return []
        session = Session.of(followed)
        signals = await self._signals(session, followed.rollout)
        events: list[Event] = []
        if followed.kind != "superseded":
            events.append(await self._next_state(followed, session, signals))
        return [*events, *await self._told(followed.rollout, session, signals)]

    async def _next_state(self, followed: TurnFollowed, session: Session, signals: Sequence[Signal]) -> TurnScored:
        nameless = any(signal.kind == "feedback" and signal.turn is None for signal in signals)
        looks_back = self._chain.looks_back(joins.case_of(followed, signals))
        turns = await self.turns.around(followed) if nameless or looks_back else []
        about = [signal for signal in signals if joins.concerns(signal, followed.turn, turns)]
        case = joins.in_session(joins.case_of(followed, about), followed.turn, turns)
        return await self._score(followed, followed.n, case, followed.n + 1, followed.trainable)

    async def _feedback(self, signal: Signal) -> list[Event]:
        session = Session.of(signal)
        turn, turns = await self.turns.meant(signal)
        signals = _with(signal, await self._signals(session, turn.rollout))
        return [await self._again(turn, turns, signal, signals)]

    async def _outcome(self, signal: Signal) -> list[Event]:
        """Every turn of the session that was recorded by now is scored again; one that comes later meets the outcome
        when its next state is judged."""
        session = Session.of(signal)
        turns = await self.turns.kept(session, fresh=True)
        signals = _with(signal, await self._signals(session, signal.rollout))
        meant = [turn for turn in joins.main_turns(turns) if joins.concerns(signal, turn.turn, turns)]
        told = meant if signal.value is not None else []
        scores = [await self._again(turn, turns, signal, signals) for turn in told]
        return [*scores, *await self._told(signal.rollout, session, signals)]

    async def _again(
        self, turn: TurnRecorded, turns: Sequence[TurnRecorded], signal: Signal, signals: Sequence[Signal]
    ) -> TurnScored:
        """The score of a turn with all that is known of it by the time of a signal."""
        followed = await self._sessions.followed(Session.of(signal), turn.turn)
        about = [other for other in signals if joins.concerns(other, turn.turn, turns)]
        case = joins.in_session(joins.case_of_turn(turn, followed, about), turn.turn, turns)
        return await self._score(turn, joins.revision_of(signal), case, len(followed), joins.trainable(turn))

    async def rollout(self, ref: RolloutRef, session: Session) -> list[Event]:
        """What a rollout came to, as far as it is known."""
        return await self._told(ref, session, await self._signals(session, ref))

    async def _told(self, ref: RolloutRef | None, session: Session, signals: Sequence[Signal]) -> list[Event]:
        """What a rollout came to, once its outcome is known: the verifier's, or its place in its group."""
        held = rollouts.outcome_of(signals, ref) if ref is not None else None
        if ref is None or held is None:
            return []
        if held.value is None and self._rankings is not None and await self._rankings.awaited(session.policy, ref):
            return []
        turns = await self._sessions.turns(session, fresh=True)
        followed = await self._sessions.followed(session, fresh=True)
        scored = rollouts.rollout_scored(ref, signals, turns, followed, judge=self._name, at=self._clock())
        return [scored] if scored is not None else []

    async def _signals(self, session: Session, ref: RolloutRef | None) -> list[Signal]:
        """The signals of a session, and what a ranking says of its rollout. A rollout's are asked of the leader: its
        outcome and its last turn come at about the same time, and whichever is judged second must see the other."""
        signals = await self._sessions.signals(session, fresh=ref is not None)
        if ref is None or self._rankings is None or any(s.kind == "outcome" and s.value is not None for s in signals):
            return signals
        ranked = await self._rankings.outcome(session, ref)
        return [*signals, ranked] if ranked is not None else signals

    async def _score(
        self, turn: TurnFollowed | TurnRecorded, n: int, case: Case, states: int, may_train: bool
    ) -> TurnScored:
        judgement: Judgement = await self._chain.judge(case)
        self._meters.scored(judgement)
        seen = states + len(case.signals)
        return joins.scored(turn, n, judgement, judge=self._name, seen=seen, may_train=may_train, at=self._clock())


def _with(signal: Signal, known: Sequence[Signal]) -> list[Signal]:
    """The signals known, this one among them: a direct read may lag behind its delivery."""
    return [*(other for other in known if other.id != signal.id), signal]
