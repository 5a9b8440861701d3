"""One measurement: a load in a process of its own, and what the candidate's processes used meanwhile."""

import contextlib
import select
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks.proxy.candidates import ROOT, Candidate
from benchmarks.proxy.figures import Cell
from benchmarks.proxy.load import Job, Measured
from benchmarks.proxy.processes import Cost, free_port, running
from benchmarks.proxy.wire import Words
from benchmarks.proxy.workload import Shape

_SETTLE_S = 30.0


class Bench:
    """The stub engine and what the processes of a run share."""

    def __init__(self, engine: int, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def measure(
        self,
        name: str,
        candidate: Candidate,
        shape: Shape,
        *,
        streams: int,
        pace: float,
        seconds: float = 0.0,
        turns: int = 0,
        watch: Callable[[], None] = lambda: None,
    ) -> Cell:
        """Load a candidate, for some seconds or so many turns. `watch` is called every second meanwhile.

        Raises:
            RuntimeError: the load generator failed.
        """
        self._pace(pace)
        job = Job(
            port=candidate.port,
            path=candidate.path,
            streams=streams,
            shape=shape,
            tokens_per_s=pace,
            words=str(self.folder / "words.json"),
            times=str(self.folder / "times"),
            seconds=seconds,
            turns=turns,
            prime=candidate.prime and shape.fresh_every != 1,
            name=f"{streams}-{time.monotonic_ns()}",
        )
        command = [sys.executable, "-m", "benchmarks.proxy.load", msgspec.json.encode(job).decode()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        try:
            before = _at("start", process, candidate, watch)
            after = _at("end", process, candidate, watch)
            assert process.stdout is not None
            measured = msgspec.json.decode(process.stdout.readline(), type=Measured)
            process.wait(30)
        finally:
            process.kill()
            process.wait()
        return Cell(
            candidate=name,
            streams=streams,
            tokens=shape.reply,
            measured=measured,
            cpu_s=after[0].cpu_s - before[0].cpu_s,
            servers_cpu_s=after[1].cpu_s - before[1].cpu_s,
            memory_mb=after[0].memory_mb,
        )

    def _pace(self, tokens_per_s: float) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.engine}/pace/{tokens_per_s:g}", data=b"{}")
        urllib.request.urlopen(request, timeout=10).close()


_WORDS = [
    "the", "of", "and", "to", "in", "is", "that", "it", "for", "was", "on", "as", "with", "his", "be", "at", "by",
    "had", "not", "are", "but", "from", "or", "have", "an", "they", "which", "one", "you", "were", "all", "her",
    "she", "there", "would", "their", "we", "him", "been", "has", "when", "who", "will", "no", "more", "if", "out",
    "so", "up", "said", "what", "its", "about", "than", "into", "them", "can", "only", "other", "time", "new",
    "some", "could", "these", "two", "may", "first", "then", "do", "any", "like", "my", "now", "over", "such",
    "our", "man", "me", "even", "most", "made", "after", "also", "did", "many",
]  # fmt: skip
"""What replies are made of: words that are one token each, with the space before them."""


@contextlib.contextmanager
def bench(folder: Path, model: str) -> Iterator[Bench]:
    """Start the stub engine for a model's tokenizer."""
    (folder / "words.json").write_bytes(msgspec.json.encode(_words(model)))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.proxy.stub", "--port", str(port)]
    files = ["--words", str(folder / "words.json"), "--times", str(folder / "times")]
    with running([*command, *files], port, folder / "stub.log"):
        yield Bench(port, folder)


def _words(model: str) -> Words:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    words = [" " + word for word in _WORDS]
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    assert all(len(each) == 1 for each in ids), f"a word of the load is not one token of {model}"
    return Words(words, [each[0] for each in ids], tokenizer.eos_token_id)


def _at(
    mark: str, process: "subprocess.Popen[bytes]", candidate: Candidate, watch: Callable[[], None]
) -> tuple[Cost, Cost]:
    """What the candidate has used when the load generator says the mark and nothing is left to hand on."""
    assert process.stdout is not None
    while not select.select([process.stdout], [], [], 1.0)[0]:
        watch()
    line = process.stdout.readline().decode().strip()
    if line != mark:
        raise RuntimeError(f"the load generator said {line!r}, not {mark!r}; its words are above, the logs are kept")
    deadline = time.monotonic() + _SETTLE_S
    while mark == "end" and candidate.backlog_bytes() and time.monotonic() < deadline:
        time.sleep(0.1)
    return candidate.cost(), candidate.servers_cost()
