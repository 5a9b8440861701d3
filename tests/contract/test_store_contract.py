"""One contract for all stores: a folder, a real S3 server, a real JetStream, and the twin in memory that tests use."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from drivetrain.common.store.blobs import Blobs, open_blobs
from drivetrain.common.store.errors import Absent
from tests.stores import MemoryBlobs

BIG = os.urandom(20 << 20)
"""More than one part of any store."""


@pytest.fixture(params=["memory", "file", "s3", "nats"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Blobs]:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    urls: dict[str, Callable[[], str]] = {
        "file": lambda: (tmp_path / "store").as_uri(),
        "s3": lambda: f"{request.getfixturevalue('s3_url')}/{name}",
        "nats": lambda: f"{request.getfixturevalue('nats_url')}/{name}",
    }
    opened: Blobs = MemoryBlobs() if request.param == "memory" else open_blobs(urls[request.param](), timeout_s=20)
    yield opened
    await opened.close()


async def test_what_was_put_is_read(blobs: Blobs) -> None:
    await blobs.put("a/b.json", b"value")
    assert await blobs.read("a/b.json") == b"value"


async def test_an_empty_value_is_a_value(blobs: Blobs) -> None:
    await blobs.put("a/empty", b"")
    assert await blobs.read("a/empty") == b""


async def test_the_last_put_counts(blobs: Blobs) -> None:
    await blobs.put("a/b", b"first, and longer")
    await blobs.put("a/b", b"second")
    assert await blobs.read("a/b") == b"second"


async def test_a_large_file_comes_back_as_it_was(blobs: Blobs, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(BIG)
    await blobs.put("blobs/big", tmp_path / "big")
    await blobs.fetch("blobs/big", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == BIG


async def test_what_is_not_there_is_absent(blobs: Blobs, tmp_path: Path) -> None:
    with pytest.raises(Absent, match="there is no a/b in"):
        await blobs.read("a/b")
    with pytest.raises(Absent):
        await blobs.fetch("a/b", tmp_path / "file")


async def test_entries_are_those_below_the_prefix_with_size_and_time(blobs: Blobs) -> None:
    assert await blobs.entries("a/") == []
    for key, value in (("a/2", b"22"), ("a/1/x", b"1"), ("ab/3", b"333")):
        await blobs.put(key, value)
    found = await blobs.entries("a/")
    assert [(entry.key, entry.size) for entry in found] == [("a/1/x", 1), ("a/2", 2)]
    # 2020 and 2100: a time, in seconds
    assert all(1.5e9 < entry.at < 4.1e9 for entry in found)


async def test_what_was_deleted_is_gone_and_may_be_put_again(blobs: Blobs) -> None:
    await blobs.put("a/b", b"value")
    await blobs.delete("a/b")
    await blobs.delete("a/b")
    assert await blobs.entries("a/") == []
    with pytest.raises(Absent):
        await blobs.read("a/b")
    await blobs.put("a/b", b"again")
    assert await blobs.read("a/b") == b"again"


async def test_many_at_once_do_not_mix(blobs: Blobs) -> None:
    await asyncio.gather(*(blobs.put(f"a/{n}", str(n).encode() * 1000) for n in range(10)))
    assert await asyncio.gather(*(blobs.read(f"a/{n}") for n in range(10))) == [
        str(n).encode() * 1000 for n in range(10)
    ]


@pytest.mark.parametrize(
    "url",
    [
        "/folder",
        "file://folder",
        "file:///",
        "s3:///prefix",
        "nats://host:4222",
        "nats://host:4222/a/b",
        "gs://bucket",
        "s3://bucket?x=1",
    ],
)
def test_a_url_that_names_no_store_is_refused_with_the_forms_that_do(url: str) -> None:
    with pytest.raises(ValueError, match="write it like file:///folder, s3://bucket/prefix or nats://host:4222/bucket"):
        open_blobs(url)
