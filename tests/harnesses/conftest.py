"""A real proxy in front of an engine that follows a script, with a tokenizer and template of a real model."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from uuid import uuid4

import pytest

from drivetrain.common.harnesses import Harness
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.driving import MODEL, Run
from tests.proxy_engine import StubEngine, stub_engine
from tests.proxy_served import Proxy, served


@pytest.fixture
async def engine() -> AsyncIterator[StubEngine]:
    async with stub_engine() as running:
        yield running


@pytest.fixture(scope="session")
def template() -> Template:
    """A real model's tokenizer and template, loaded once: they are large."""
    return Template(str(MODEL))


@pytest.fixture
async def proxy(engine: StubEngine, template: Template, valkey_url: str, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with served(
        [engine.url],
        model=template,
        redis_url=valkey_url,
        prefix=f"h{uuid4().hex[:8]}:",
        spool=tmp_path / "spool",
        context_tokens=120_000,
        bounds={"body_bytes": 16 << 20},
    ) as running:
        yield running


CAPTURED: dict[tuple[str, str], tuple[str, ...]] = {}
HEADINGS = ("harness", "version", "dialect", "calls", "turns", "exact", "beside", "second prompt")


def captured(harness: Harness, dialect: str, run: Run, calls: int) -> None:
    """Keep what was recorded of a harness's run, for the table at the end."""
    exact = sum(turn.exact for turn in run.turns)
    side = sum(turn.kind == "side" for turn in run.turns)
    second = f"{run.work[1].drift}, {run.work[1].drift_cause}" if len(run.work) > 1 else "-"
    counts = (calls, len(run.turns), exact, side)
    row = (harness.title, harness.install.tested or "", dialect, *map(str, counts), second)
    CAPTURED[harness.name, dialect] = row


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of what was captured, as `docs/harnesses.md` has it."""
    if CAPTURED:
        terminalreporter.section("captured of each harness")
        for line in lines([HEADINGS, tuple("---" for _ in HEADINGS), *(CAPTURED[key] for key in sorted(CAPTURED))]):
            terminalreporter.write_line(line)


def lines(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows as Markdown."""
    return [f"| {' | '.join(row)} |" for row in rows]
