"""What one demo came to: written as `result.json` in the run folder, and read by the benchmark."""

from pathlib import Path

import msgspec

from drivetrain.cli.demo.chat import Problems
from drivetrain.cli.demo.evaluate import Heldout
from drivetrain.cli.demo.sessions import First, Talk
from drivetrain.cli.demo.watch import Loop, Update

RESULT_FILE = "result.json"
WINDOW = 16


class Delay(msgspec.Struct, frozen=True):
    """From a correction to a changed reply, in seconds; see `corrections.py` for what exactly is measured."""

    median_s: float | None
    p90_s: float | None
    measured: int
    unanswered: int


class Trouble(msgspec.Struct, frozen=True):
    """Requests that went wrong, of all that were sent; `details` holds the first few."""

    requests: int
    failed: int
    cut: int
    aborted: int
    details: list[str]


class Moment(msgspec.Struct, frozen=True):
    """A version went live, `minutes` after the first session opened; its trainer's metrics."""

    minutes: float
    version: int
    metrics: dict[str, float]


class FirstReply(msgspec.Struct, frozen=True):
    """A session's first reply, `minutes` after the first session opened."""

    minutes: float
    fits: bool
    words: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of a demo. `minutes` runs from the first held-out question to the last one's reply; `total_minutes`
    also holds the start of the stack and the preparation of the model."""

    taste: str
    seed: int
    method: str
    model: str
    run_dir: str
    minutes: float
    total_minutes: float
    sessions: int
    objections: int
    thanks: int
    given_up: int
    version: int
    before: Heldout
    after: Heldout
    trouble: Trouble
    delay: Delay
    updates: list[Moment]
    firsts: list[FirstReply]
    held: list[str]
    stalls: int

    @property
    def gain_points(self) -> float:
        """How far held-out satisfaction rose, in percentage points."""
        return 100 * (self.after.satisfied.share - self.before.satisfied.share)

    @property
    def apart(self) -> bool:
        """Whether the interval after training lies wholly above the one before."""
        return self.after.satisfied.low > self.before.satisfied.high

    @property
    def troubles(self) -> int:
        """Requests that failed, were cut or aborted."""
        return self.trouble.failed + self.trouble.cut + self.trouble.aborted

    def kl_curve(self) -> list[tuple[float, float]]:
        """Minutes, and the KL to the base (nats a token) that the trainer measured on the batch of each update."""
        return [(u.minutes, u.metrics["kl_reference"]) for u in self.updates if "kl_reference" in u.metrics]

    def write(self) -> Path:
        """Write it into the run folder."""
        target = Path(self.run_dir) / RESULT_FILE
        target.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        return target


def read_result(run_dir: Path) -> Result:
    """The result in a run folder.

    Raises:
        OSError, msgspec.DecodeError: there is none, or it was written by another version.
    """
    return msgspec.json.decode((run_dir / RESULT_FILE).read_bytes(), type=Result)


def trouble_of(problems: Problems) -> Trouble:
    """The client's counts, for keeping."""
    return Trouble(problems.requests, problems.failed, problems.cut, problems.aborted, problems.details[:10])


def delay_of(talk: Talk) -> Delay:
    """The delays of all objections, summed up."""
    seen = talk.corrections
    return Delay(seen.median_s(), seen.p90_s(), len(seen.delays_s), seen.unanswered())


def moments_of(loop: Loop, began: float) -> list[Moment]:
    """The updates, in minutes since `began`."""
    return [_moment(update, began) for update in loop.updates]


def _moment(update: Update, began: float) -> Moment:
    return Moment((update.at - began) / 60, update.version, update.metrics)


def first_replies_of(talk: Talk, began: float) -> list[FirstReply]:
    """The first replies, in minutes since `began`."""
    return [_first(first, began) for first in talk.firsts]


def _first(first: First, began: float) -> FirstReply:
    return FirstReply((first.at - began) / 60, first.fits, first.length_words)


def moving_share(fits: list[bool], window: int = WINDOW) -> list[float]:
    """For each first reply the share of those that fit among it and the ones before it, at most `window` in all."""
    return [sum(part) / len(part) for end in range(1, len(fits) + 1) for part in (fits[max(0, end - window) : end],)]
