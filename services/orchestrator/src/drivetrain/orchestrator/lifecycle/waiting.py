"""Which rollout is next: fair among runs, whatever they asked for first. Pure."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from drivetrain.common.events import RolloutRequested, Signal


@dataclass(frozen=True)
class Job:
    """A rollout that is to run. `started`: it was taken up before, at `since` (unix seconds); `not_before` is when it
    may start, `told` an outcome that is stored already."""

    request: RolloutRequested
    since: float = 0.0
    attempt: int = 1
    not_before: float = 0.0
    started: bool = False
    told: Signal | None = None

    @property
    def run(self) -> str:
        return self.request.rollout.run

    @property
    def name(self) -> str:
        """The rollout's name, unique on the bus."""
        return f"{self.run}.{self.request.rollout.rollout}"

    def again(self, since: float, not_before: float) -> "Job":
        """The next attempt."""
        return replace(self, since=since, attempt=self.attempt + 1, not_before=not_before, started=True)


class Waiting:
    """Jobs by their runs. At most `per_run` of a run are out at a time; None: no ceiling."""

    def __init__(self, per_run: int | None = None) -> None:
        self._per_run = per_run
        self._jobs: dict[str, deque[Job]] = {}
        self._out: Counter[str] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._jobs.values()))

    def __iter__(self) -> Iterator[Job]:
        for jobs in self._jobs.values():
            yield from jobs

    def put(self, job: Job) -> None:
        """Add a job at the end of its run."""
        self._jobs.setdefault(job.run, deque()).append(job)

    def take(self, now: float, may_start: Callable[[Job], bool] = lambda job: True) -> Job | None:
        """The first job that may start, of the run that has the fewest out; among such, of the one that waited longest
        since its last. None if there is none now. It is out until `done`."""
        for run in sorted(self._jobs, key=self._out.__getitem__):
            if self._per_run is not None and self._out[run] >= self._per_run:
                continue
            for job in self._jobs[run]:
                if job.not_before <= now and may_start(job):
                    self._remove(job)
                    self._out[run] += 1
                    return job
        return None

    def done(self, job: Job) -> None:
        """A job that was taken is no longer out."""
        self._out[job.run] -= 1
        if not self._out[job.run]:
            del self._out[job.run]

    def withdraw(self, name: str) -> Job | None:
        """Take a job out of the line without running it."""
        found = next((job for job in self if job.name == name), None)
        if found is not None:
            self._remove(found)
        return found

    def _remove(self, job: Job) -> None:
        """Its run goes behind the others."""
        jobs = self._jobs.pop(job.run)
        jobs.remove(job)
        if jobs:
            self._jobs[job.run] = jobs
