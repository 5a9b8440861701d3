"""What the patterns find and what they leave alone, in both engines that compile them."""

import re
from typing import Any

import pytest
import regex

from drivetrain.common.patterns import PATTERNS

ENGINES = pytest.mark.parametrize("engine", [re, regex])

FOUND = [
    ("private-key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----"),
    ("private-key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nb3Bl and it was cut"),
    ("api-key", "sk-ant-api03-aB3dE5gH7jK9mN2pQ4rS"),
    ("api-key", "AKIAABCDEFGHIJKLMNOP"),
    ("api-key", "github_pat_11ABCDEFG0abcdefghij_klm"),
    ("api-key", "hf_abcdefghijklmnopqrstuvwxyz"),
    ("api-key", "pypi-AgEIcHlwaS5vcmcCJDU2"),
    ("api-key", "xoxb-1234567890-abc"),
    ("bearer", "Bearer abcdef0123456789"),
    ("bearer", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef"),
    ("url-password", "postgres://admin:hunter2@"),
    ("url-password", "redis://:hunter2@"),
    ("secret", "DB_PASSWORD=correct-horse"[3:]),
    ("secret", 'api_key": "0123456789abcdef'),
    ("e-mail", "ann.lee+work@mail.example.co.uk"),
    ("phone", "+49 30 1234 5678"),
    ("phone", "13812345678"),
]
PLAIN = [
    "commit 9f2b8c1d4e5f60718293a4b5c6d7e8f901234567",
    "2026-12-01 01:40:55 listening on http://127.0.0.1:8080/a",
    "def token_count(tokens): return len(tokens)",
    "the password was wrong",
    "npm_config_cache and task_force",
    "price: 1,234,567.89 and pi 3.14159265358979",
    "@decorator, user@host",
]


@ENGINES
@pytest.mark.parametrize(("name", "secret"), FOUND)
def test_a_secret_is_found_whole_by_its_own_pattern(engine: Any, name: str, secret: str) -> None:
    match = engine.search(PATTERNS[name], f"before {secret}")
    assert match is not None
    assert match[0] == secret


@ENGINES
@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_is_left_alone(engine: Any, text: str) -> None:
    assert [name for name, pattern in PATTERNS.items() if engine.search(pattern, text)] == []
