"""Ranks each group once, when its last rollout has ended, and gives its rollouts and their turns what came out."""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase

from drivetrain.common.bus.base import Delivery
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.events import GroupRanked, RolloutFinished, Standing
from drivetrain.common.identity import ROLLOUT_TENANT
from drivetrain.judge import joins, meters
from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.asking.prompt import fitted, transcript
from drivetrain.judge.judge import Judge
from drivetrain.judge.ranking.groups import COMPARED, Ended, due, places_of, reward_of, shuffled
from drivetrain.judge.ranking.question import Answer, question
from drivetrain.judge.ranking.rankings import Rankings, outcome_of
from drivetrain.judge.sessions import Session, Sessions
from drivetrain.judge.sources.base import NoScore, quote

MOST = len(ascii_uppercase)
"""Rollouts that one call can compare."""


class Ranker:
    """Handles the ends of rollouts. Stateless: what it needs is read from the bus, and a ranking that is stored holds.
    `clock` gives the time in seconds since the epoch."""

    def __init__(
        self,
        name: str,
        judge: Judge,
        sessions: Sessions,
        rankings: Rankings,
        asker: Asker,
        wait_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._judge = judge
        self._sessions = sessions
        self._rankings = rankings
        self._asker = asker
        self._wait_s = wait_s
        self._clock = clock

    async def handle(self, delivery: Delivery) -> None:
        """Rank the groups that this end makes due, and store their results.

        Raises:
            Unprocessable: it is no end of a rollout.
        """
        event = delivery.event
        if not isinstance(event, RolloutFinished):
            raise Unprocessable(f"the judge ranks by ends of rollouts, not by {type(event).__name__}")
        if event.outcome is not None or await self._rankings.task(event.rollout) is None:
            return
        ends = await self._rankings.ends(event.rollout.run)
        for members in due(delivery.sequence, ends, self._wait_s):
            await self._settle(members)
        await self._result(event)  # of one that came after its group was ranked; else it is stored already

    async def _settle(self, members: Sequence[Ended]) -> None:
        first = members[0].event
        task = await self._rankings.task(first.rollout)
        if task is None:
            return
        ranked = await self._rankings.of(first.policy, first.rollout.run, first.rollout.group)
        if ranked is None:
            ranked = await self._rankings.keep(await self._ranking(str(task.get("instruction", "")), members))
        for standing in ranked.standings:
            if (outcome := outcome_of(ranked, standing, ROLLOUT_TENANT)) is not None:
                await self._sessions.store(await self._judge.results(outcome))
        for member in members:
            await self._result(member.event)

    async def _result(self, event: RolloutFinished) -> None:
        session = Session(ROLLOUT_TENANT, event.policy, event.session)
        await self._sessions.store(await self._judge.rollout(event.rollout, session))

    async def _ranking(self, task: str, members: Sequence[Ended]) -> GroupRanked:
        """Compare those whose work can be compared; the others keep their reason and have no place."""
        ends = {member.event.rollout.rollout: member.event for member in members}
        shown = await self._attempts(ends)
        answers, detail = await self._compare(task, shown, members[0].event)
        places = places_of({rollout: answer.place for rollout, answer in answers.items()})
        first = members[0].event
        meters.RANKINGS.labels("ranked" if places else "not ranked").inc()
        return GroupRanked(
            policy=first.policy,
            run=first.rollout.run,
            group=first.rollout.group,
            group_size=first.rollout.group_size,
            judge=self._name,
            standings=[
                Standing(
                    rollout=rollout,
                    session=end.session,
                    reason=end.reason,
                    place=places.get(rollout),
                    reward=reward_of(places[rollout], len(places)) if rollout in places else None,
                    evidence=quote(answers[rollout].evidence) if rollout in answers else "",
                )
                for rollout, end in ends.items()
            ],
            detail=detail,
            at=self._clock(),
        )

    async def _compare(
        self, task: str, shown: Mapping[str, str], first: RolloutFinished
    ) -> tuple[Mapping[str, Answer], str]:
        """The answer about each rollout, or none and why."""
        if not 2 <= len(shown) <= MOST:
            return {}, f"{len(shown)} rollouts left work to compare: one call compares 2 to {MOST}"
        settings = self._asker.settings
        labels = dict(zip(ascii_uppercase, shuffled(list(shown), first.rollout.run, first.rollout.group), strict=False))
        attempts = {label: shown[rollout] for label, rollout in labels.items()}
        instruction = fitted(task, settings.context_chars, mask=not settings.local)
        try:
            (answer,) = await self._asker.ask(question(instruction, attempts, settings))
        except NoScore as error:
            return {}, f"no valid ranking: {error}"
        return {labels[label]: found for label, found in answer.items()}, f"shown as {labels}"

    async def _attempts(self, ends: Mapping[str, RolloutFinished]) -> dict[str, str]:
        """The transcript of each rollout that left work to compare."""
        shown: dict[str, str] = {}
        settings = self._asker.settings
        for rollout, end in ends.items():
            session = Session(ROLLOUT_TENANT, end.policy, end.session)
            turns = await self._judge.turns.kept(session, fresh=True) if end.reason in COMPARED else []
            if mains := joins.main_turns(turns):
                messages = [*joins.history_of(mains[-1].turn, turns), *mains[-1].messages, mains[-1].reply]
                shown[rollout] = transcript(messages, settings.context_chars, mask=not settings.local)
        return shown
