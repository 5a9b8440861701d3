"""What the bus knows of groups without a verifier: their tasks, their ends, their rankings."""

from drivetrain.common.events import (
    GroupRanked,
    RolloutFinished,
    RolloutRef,
    RolloutRequested,
    Signal,
    Standing,
)
from drivetrain.judge.ranking.groups import Ended
from drivetrain.judge.sessions import Session, Sessions


class Rankings:
    """The rankings of one judge. All is asked of the leader."""

    def __init__(self, sessions: Sessions, judge: str) -> None:
        self._sessions = sessions
        self._judge = judge

    async def task(self, ref: RolloutRef) -> dict[str, object] | None:
        """The task of a rollout, if it has no verifier; None for others, and where the request is not kept any more."""
        found = await self._sessions.newest("ROLLOUTS", f"rollout.requested.{ref.run}.{ref.rollout}")
        return found.task if isinstance(found, RolloutRequested) and not found.task.get("verify") else None

    async def ends(self, run: str) -> list[Ended]:
        """Every end of a run's rollouts."""
        stored = await self._sessions.all("ROLLOUTS", f"rollout.finished.{run}.*")
        return [Ended(s.sequence, s.event) for s in stored if isinstance(s.event, RolloutFinished)]

    async def of(self, policy: str, run: str, group: str) -> GroupRanked | None:
        """The ranking of a group, if there is one."""
        found = await self._sessions.newest("SCORES", f"group.ranked.{policy}.{run}.{group}.{self._judge}")
        return found if isinstance(found, GroupRanked) else None

    async def keep(self, ranked: GroupRanked) -> GroupRanked:
        """Store a ranking; returns the one that holds: another replica may have been first."""
        await self._sessions.store([ranked])
        return await self.of(ranked.policy, ranked.run, ranked.group) or ranked

    async def awaited(self, policy: str, ref: RolloutRef) -> bool:
        """Whether a rollout's result has to wait for a ranking."""
        return await self.task(ref) is not None and await self.of(policy, ref.run, ref.group) is None

    async def outcome(self, session: Session, ref: RolloutRef) -> Signal | None:
        """What a ranking says of a rollout, as an outcome; None without one, or if it was not compared."""
        ranked = await self.of(session.policy, ref.run, ref.group)
        standings = ranked.standings if ranked is not None else []
        standing = next((standing for standing in standings if standing.rollout == ref.rollout), None)
        return outcome_of(ranked, standing, session.tenant) if ranked is not None and standing is not None else None


def outcome_of(ranked: GroupRanked, standing: Standing, tenant: str) -> Signal | None:
    """A standing as the outcome of its rollout; None if it was not compared."""
    if standing.place is None or standing.reward is None:
        return None
    compared = sum(other.place is not None for other in ranked.standings)
    return Signal(
        kind="outcome",
        tenant=tenant,
        policy=ranked.policy,
        session=standing.session,
        id=f"rank-{ranked.judge}",
        value=standing.reward,
        text=f"place {standing.place:g} of {compared}: {standing.evidence}",
        rollout=RolloutRef(run=ranked.run, group=ranked.group, rollout=standing.rollout, group_size=ranked.group_size),
        reason=standing.reason,
        at=ranked.at,
    )
