"""From what was measured to the figures of the result file and the rows of the table. Latencies in milliseconds."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.proxy.histogram import Histogram
from benchmarks.proxy.load import Measured


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate under one load. CPU seconds are those of the process that clients talk to, and of the servers that
    it needs; `streams` is the load's name in the table, `tokens` the length of a reply."""

    candidate: str
    streams: int
    tokens: int
    measured: Measured
    cpu_s: float
    servers_cpu_s: float = 0.0
    memory_mb: float = 0.0

    @property
    def replies(self) -> float:
        """Whole replies' worth of tokens that were delivered; the last token of a reply has no text."""
        return self.measured.tokens / (self.tokens - 1)

    @property
    def per_core(self) -> float:
        """Requests that one busy core answers in a second; NaN for the engine itself."""
        return self.replies / self.cpu_s if self.cpu_s else math.nan

    @property
    def per_core_with_servers(self) -> float:
        """The same, with the CPU time of the servers that the candidate needs."""
        return self.replies / (self.cpu_s + self.servers_cpu_s) if self.cpu_s else math.nan

    @property
    def per_second(self) -> float:
        """Requests answered in a second."""
        return self.replies / self.measured.seconds if self.measured.seconds else 0.0

    def late_ms(self, percent: float, *, first: bool) -> float:
        """A percentile of what the way to the client and back takes, for the first token or a later one."""
        return 1000 * Histogram(self.measured.first if first else self.measured.later).percentile(percent)


def added_ms(cell: Cell, direct: Cell, percent: float, *, first: bool) -> float:
    """What the candidate adds to a percentile, against the engine itself under the same load."""
    return cell.late_ms(percent, first=first) - direct.late_ms(percent, first=first)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All cells: paced by number of streams, and as fast as can be with short and with long prompts."""

    paced: Sequence[Cell]
    short: Sequence[Cell]
    long: Sequence[Cell]
    not_recorded: int

    def of(self, cells: Sequence[Cell], candidate: str) -> Cell | None:
        """The one cell of a candidate in an unpaced load."""
        return next((cell for cell in cells if cell.candidate == candidate), None)

    def at(self, candidate: str, streams: int) -> Cell | None:
        """The paced cell of a candidate."""
        return next((cell for cell in self.paced if (cell.candidate, cell.streams) == (candidate, streams)), None)


OURS = "drivetrain"
_RIVALS = {"litellm": "litellm", "rllm-model-gateway": "rllm", "bare relay": "bare_relay"}


def figures(seen: Seen) -> dict[str, float]:
    """The flat figures; what was not measured is left out."""
    ours = [cell for cell in (*seen.paced, *seen.short, *seen.long) if cell.candidate == OURS]
    found = {
        **_latencies(seen),
        **_ratios(seen),
        **{f"rps_per_core{suffix}": cell.per_core for suffix, cell in _unpaced(seen, OURS).items()},
        **{f"rps_per_core_with_servers{suffix}": c.per_core_with_servers for suffix, c in _unpaced(seen, OURS).items()},
        "memory_mb": max((cell.memory_mb for cell in ours), default=0.0),
        "failed_requests": float(sum(cell.measured.failed + cell.measured.unanswered for cell in ours)),
        "answered_not_recorded": float(seen.not_recorded),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _latencies(seen: Seen) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in seen.paced:
        direct = seen.at("direct", cell.streams)
        name = "" if cell.candidate == OURS else f"_{_RIVALS.get(cell.candidate)}"
        if direct is None or cell is direct:
            continue
        for percent in (50, 99):
            found[f"added_ttft_ms_p{percent}_{cell.streams}{name}"] = added_ms(cell, direct, percent, first=True)
            found[f"added_token_ms_p{percent}_{cell.streams}{name}"] = added_ms(cell, direct, percent, first=False)
    return found


def _ratios(seen: Seen) -> dict[str, float]:
    """Requests per core of ours, in multiples of each other candidate's. The proxies' own processes are compared;
    `…_with_servers` counts JetStream and the index as well."""
    found: dict[str, float] = {}
    for suffix, ours in _unpaced(seen, OURS).items():
        for candidate, name in _RIVALS.items():
            if other := _unpaced(seen, candidate).get(suffix):
                title = "vs_bare_relay" if name == "bare_relay" else f"rps_per_core_vs_{name}"
                found[title + suffix] = ours.per_core / other.per_core
                found[f"{title}_with_servers{suffix}"] = ours.per_core_with_servers / other.per_core
    return found


def _unpaced(seen: Seen, candidate: str) -> Mapping[str, Cell]:
    short, long = seen.of(seen.short, candidate), seen.of(seen.long, candidate)
    cells = {"": short, "_8k": long}
    return {suffix: cell for suffix, cell in cells.items() if cell is not None}


LATENCY_COLUMNS = (
    "streams", "candidate", "first token +ms p50", "p99", "each token +ms p50", "p99", "requests/s", "per core",
    "cores", "MB", "failed",
)  # fmt: skip


def latency_rows(seen: Seen) -> list[list[str]]:
    """One line for each paced cell; the engine itself in absolute terms."""
    rows = []
    for cell in seen.paced:
        direct = seen.at("direct", cell.streams)
        late = [_late(cell, direct, percent, first=first) for first in (True, False) for percent in (50, 99)]
        seconds = cell.measured.seconds or math.nan
        rows.append(
            [
                str(cell.streams),
                cell.candidate,
                *(_shown(value, 2) for value in late),
                _shown(cell.per_second, 1),
                _shown(cell.per_core, 0),
                _shown(cell.cpu_s / seconds, 2),
                f"{cell.memory_mb:.0f}",
                str(cell.measured.failed + cell.measured.unanswered),
            ]
        )
    return rows


def _late(cell: Cell, direct: Cell | None, percent: float, *, first: bool) -> float:
    if direct is None or cell is direct:
        return cell.late_ms(percent, first=first)
    return added_ms(cell, direct, percent, first=first)


def _shown(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


RATE_COLUMNS = ("load", "candidate", "requests/s", "per core", "with servers", "drivetrain is", "MB", "failed")


def rate_rows(seen: Seen) -> list[list[str]]:
    """One line for each unpaced cell."""
    rows = []
    for load, cells in (("500 tokens", seen.short), ("8k history", seen.long)):
        ours = seen.of(cells, OURS)
        for cell in cells:
            ratio = f"{ours.per_core / cell.per_core:.2f}x" if ours and cell.cpu_s else "-"
            rows.append(
                [
                    load,
                    cell.candidate,
                    _shown(cell.per_second, 1),
                    _shown(cell.per_core, 0),
                    _shown(cell.per_core_with_servers, 0),
                    ratio,
                    f"{cell.memory_mb:.0f}",
                    str(cell.measured.failed + cell.measured.unanswered),
                ]
            )
    return rows
