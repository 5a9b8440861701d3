"""What leaves for a judge model that is not ours: no keys, no addresses, no phone numbers."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.judge.asking.prompt import material
from drivetrain.judge.redaction import redacted
from drivetrain.judge.sources.base import Case

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAABBBB\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    ("sk-proj-abcdefghijklmnopqrstuv", "api-key"),
    ("AKIAABCDEFGHIJKLMNOP", "api-key"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "api-key"),
    ("glpat-abcdefghijklmnop1234", "api-key"),
    ("hf_abcdefghijklmnopqrstuvwxyz", "api-key"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef", "bearer"),
    ("Authorization: Bearer abcdef0123456789abcdef", "bearer"),
    ("postgres://admin:hunter2@db.example.com/x", "url-password"),
    ("DB_PASSWORD=correct-horse-battery", "secret"),
    ('"api_key": "0123456789abcdef"', "secret"),
    ("ann.lee+work@mail.example.co.uk", "e-mail"),
    ("+49 30 1234 5678", "phone"),
    ("+1 (555) 010-9999", "phone"),
    ("555-010-9999", "phone"),
    ("13812345678", "phone"),
    ("030 1234 5678", "phone"),
    (PEM, "private-key"),
]
PLAIN = [
    "== 12 passed, 3 warnings in 0.45s ==",
    "2026-12-01 01:40:55 listening on 127.0.0.1:8080",
    "commit 9f2b8c1d4e5f60718293a4b5c6d7e8f901234567",
    "def token_count(tokens): return len(tokens)",
    "the password was wrong",
    "price: 1,234,567.89 and pi 3.14159265358979",
]


@pytest.mark.parametrize(("secret", "kind"), SECRETS)
def test_a_secret_is_replaced_by_its_kind(secret: str, kind: str) -> None:
    shown = redacted(f"before {secret} after", 10_000)
    assert f"[{kind}]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    for piece in ("hunter2", "correct-horse", "ann.lee", "1234 5678", "AAAABBBB", "abcdefghij", "0123456789abcdef"):
        assert piece not in shown


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_output_stays(text: str) -> None:
    assert redacted(text, 10_000) == text


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 12_000), st.sampled_from([secret for secret, _ in SECRETS]))
def test_a_cut_never_leaves_half_a_secret(before: int, secret: str) -> None:
    text = "word " * (before // 5) + secret + " word" * 4_000
    shown = redacted(text, 2_000)
    assert len(shown) <= 2_001
    for whole, kind in SECRETS:
        if whole == secret and kind == "api-key":
            assert secret[:12] not in shown


def test_a_key_whose_beginning_or_end_was_cut_away_is_masked_too() -> None:
    body = "\n".join(f"LINE{number:05d}" for number in range(2_000))
    text = f"start -----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY----- end"
    shown = redacted(text, 1_000)
    assert "LINE" not in shown
    assert shown.startswith("start ")
    assert shown.endswith(" end")


def test_ten_megabytes_without_a_space_take_no_time() -> None:
    started = time.perf_counter()
    for text in ("x" * 10_000_000, "1 " * 5_000_000, "a@" * 5_000_000, "+1-" * 3_000_000):
        assert len(redacted(text, 16_000)) <= 16_001
    assert time.perf_counter() - started < 5


def test_every_part_of_the_material_is_masked_unless_the_endpoint_is_ours() -> None:
    call = {"function": {"name": "send", "arguments": json.dumps({"to": "ann@example.com"})}}
    case = Case(
        ({"role": "user", "content": "mail ann@example.com"},),
        {"role": "assistant", "content": [{"type": "text", "text": "to ann@example.com"}], "tool_calls": [call]},
        ({"role": "tool", "content": "sent to ann@example.com"},),
        history=({"role": "system", "content": "ann@example.com"},),
    )
    masked = material(case, 16_000, mask=True)
    assert "ann@" not in "".join(masked.values())
    assert "".join(masked.values()).count("[e-mail]") == 5
    assert "".join(material(case, 16_000, mask=False).values()).count("ann@example.com") == 5
