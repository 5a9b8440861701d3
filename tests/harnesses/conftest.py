"""A real proxy in front of an engine that follows a script, with a tokenizer and template of a real model."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.harnesses.driving import MODEL
from tests.proxy_engine import StubEngine, stub_engine
from tests.proxy_served import Proxy, served


@pytest.fixture
async def engine() -> AsyncIterator[StubEngine]:
    async with stub_engine() as running:
        yield running


@pytest.fixture
async def proxy(engine: StubEngine, valkey_url: str, tmp_path: Path) -> AsyncIterator[Proxy]:
    async with served(
        [engine.url],
        model=MODEL,
        redis_url=valkey_url,
        prefix=f"h{uuid4().hex[:8]}:",
        spool=tmp_path / "spool",
        context_tokens=120_000,
        bounds={"body_bytes": 16 << 20},
    ) as running:
        yield running
