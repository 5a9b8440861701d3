"""Labelled turns for tests of the evaluation."""

import json
from pathlib import Path
from typing import Any

import msgspec

from drivetrain.judge.evaluation.labelled import Labelled
from drivetrain.judge.evaluation.measure import Judged

LINE: dict[str, Any] = {
    "id": "a", "domain": "chat", "language": "en", "label": 1, "conversation": [{"role": "user", "content": "2+2?"}],
    "reply": {"role": "assistant", "content": "4"}, "next": [{"role": "user", "content": "thanks"}],
}  # fmt: skip


def labelled(**changes: Any) -> Labelled:
    return msgspec.convert(LINE | changes, Labelled)


def result(label: int, verdict: int | None, *, confidence: float | None = None, **rest: Any) -> Judged:
    hints = rest.pop("hints", ())
    return Judged(labelled(label=label, **rest), verdict, confidence, hints, 0.0)


def file_of(folder: Path, *lines: str | dict[str, Any]) -> Path:
    path = folder / "set.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path
