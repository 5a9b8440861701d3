"""What is masked in texts, numbers, keys and JSON, within a bounded time and beside the event loop."""

import asyncio
import json
import time
from typing import Any

import pytest
import regex

from drivetrain.common.events import Signal
from drivetrain.proxy.access.mask import Mask
from drivetrain.proxy.access.redaction import Redaction
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool

SLOW = r"(?:x+x+)+y"
CARD = {"card": r"\b\d{16}\b"}
NUMBER = 4111111111111111


def mask(patterns: dict[str, str], timeout_s: float = 2.0) -> Mask:
    return Mask({name: regex.compile(pattern) for name, pattern in patterns.items()}, timeout_s)


def test_a_number_may_be_a_secret_too() -> None:
    given = {"card": NUMBER, "sum": 12.5, "paid": True, "none": None, "list": [NUMBER, 1]}
    own = mask(CARD)
    hidden = "[masked: card]"
    assert own.value(given) == {"card": hidden, "sum": 12.5, "paid": True, "none": None, "list": [hidden, 1]}
    assert own.secrets == {str(NUMBER)}


def test_json_in_a_text_stays_json() -> None:
    arguments = json.dumps({"card": NUMBER, "note": f"card {NUMBER}", "sum": 12.5})
    masked = json.loads(mask(CARD).text(arguments))
    assert masked == {"card": "[masked: card]", "note": "card [masked: card]", "sum": 12.5}


@pytest.mark.parametrize("text", ["{not JSON 4111111111111111}", "[4111111111111111", f"{NUMBER}"])
def test_what_is_no_json_is_masked_as_text(text: str) -> None:
    assert mask(CARD).text(text) == text.replace(str(NUMBER), "[masked: card]")


def test_a_secret_across_the_marks_of_json_is_masked_as_well() -> None:
    own = mask({"pair": r'"pin": \d+'})
    masked = own.text('{"pin": 1234, "a": 1}')
    assert "1234" not in masked
    assert own.found == {"pair"}


def test_keys_that_are_masked_alike_keep_their_values() -> None:
    names = [str(NUMBER + n) for n in range(3)]
    assert mask(CARD).value({name: n for n, name in enumerate(names)}) == {
        "[masked: card]": 0,
        "[masked: card] 2": 1,
        "[masked: card] 3": 2,
    }


def test_a_pattern_that_takes_too_long_takes_all_for_a_secret_and_takes_that_time_once() -> None:
    own, hard = mask({"slow": SLOW, "card": r"\b\d{16}\b"}, timeout_s=0.05), "x" * 5000
    started = time.perf_counter()
    masked = own.value([hard, "short", hard, str(NUMBER)])
    assert masked == ["[masked: slow]"] * 4
    assert own.spans(hard) == [(0, 5000)]
    assert own.found == {"slow"}
    assert time.perf_counter() - started < 60


async def test_while_a_pattern_looks_at_a_text_the_event_loop_runs(tmp_path: Any) -> None:
    redaction = Redaction({"slow": SLOW}, {}, timeout_s=0.3)
    recorder = Recorder(Spool(tmp_path), redaction.beside)
    signal = Signal(
        kind="feedback", tenant="t", policy="p", session="s", id="1", value=1.0, text="x" * 5000 + " secret", at=1.0
    )
    recording, turns = asyncio.create_task(recorder.record(signal)), 0
    while not recording.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert await recording
    assert turns > 10
    ((payload, _),) = recorder.spool.unread()
    assert b"[masked: slow]" in (payload or b"")
    assert b"secret" not in (payload or b"")
    redaction.close()
    recorder.spool.close()
