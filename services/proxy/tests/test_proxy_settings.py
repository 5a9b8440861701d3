"""Settings: one policy in a few lines or several in a table, and mistakes named."""

from pathlib import Path

import pytest

from drivetrain.common.settings import BadSettings, resolve
from drivetrain.proxy.routing.settings import PolicySettings
from drivetrain.proxy.settings import ProxySettings

SECRET = {"DRIVETRAIN_PROXY_SECRET": "x" * 16}
ONE = SECRET | {"DRIVETRAIN_PROXY_MODEL": "m"}
SEVERAL = """
[policies.tutor]
model = "/models/tutor"
replicas = "http://a:8000, http://b:8000/"

[policies.coder]
model = "/models/coder"
renderer = "qwen3"
replicas = "http://c:8000"
context_tokens = 4096
"""


def test_one_policy_needs_no_table() -> None:
    settings = resolve(ProxySettings, "proxy", ["--engine.replicas", "http://a/, http://b", "--policy", "tutor"], ONE)
    assert list(settings.served) == ["tutor"]
    assert settings.served["tutor"].model == "m"
    assert settings.served["tutor"].urls == ("http://a", "http://b")


def test_several_policies_have_models_and_replicas_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "proxy.toml").write_text(SEVERAL)
    settings = resolve(ProxySettings, "proxy", ["--config", str(tmp_path / "proxy.toml")], SECRET)
    assert settings.served["tutor"].urls == ("http://a:8000", "http://b:8000")
    coder = PolicySettings(model="/models/coder", renderer="qwen3", replicas="http://c:8000", context_tokens=4096)
    assert settings.served["coder"] == coder


def test_policies_can_come_from_the_environment() -> None:
    several = {
        "DRIVETRAIN_PROXY_POLICIES__TUTOR__MODEL": "m",
        "DRIVETRAIN_PROXY_POLICIES__TUTOR__REPLICAS": "http://a",
        "DRIVETRAIN_PROXY_POLICIES__CODER__MODEL": "n",
        "DRIVETRAIN_PROXY_POLICIES__CODER__REPLICAS": "http://b",
    }
    settings = resolve(ProxySettings, "proxy", [], SECRET | several)
    assert {name: policy.model for name, policy in settings.served.items()} == {"tutor": "m", "coder": "n"}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"DRIVETRAIN_PROXY_SECRET": "short"}, "16 characters"),
        ({"DRIVETRAIN_PROXY_POLICY": "Not Allowed"}, "policy"),
        ({"DRIVETRAIN_PROXY_ENGINE__REPLICAS": "localhost"}, "http://"),
        ({"DRIVETRAIN_PROXY_ENGINE__REPLICAS": "http://a, http://a/"}, "once"),
        ({"DRIVETRAIN_PROXY_CONSENT": "maybe"}, "consent"),
        ({"DRIVETRAIN_PROXY_ROUTING__MAX_IN_FLIGHT": "0"}, "max_in_flight"),
        ({"DRIVETRAIN_PROXY_MODEL": ""}, "model"),
        ({"DRIVETRAIN_PROXY_LISTEN__HOST": "127.0.0.1,0.0.0.0"}, "0.0.0.0 is open to other machines"),
        ({"DRIVETRAIN_PROXY_LISTEN__HOST": "example.org"}, "drivetrain keys add"),
        ({"DRIVETRAIN_PROXY_LISTEN__HOST": ""}, "listen.unix"),
        ({"DRIVETRAIN_PROXY_LISTEN__CERTIFICATE": "c.pem"}, "belong together"),
        ({"DRIVETRAIN_PROXY_REDACTION__PATTERNS": "api-keys"}, "unknown: api-keys"),
        ({"DRIVETRAIN_PROXY_REDACTION__CUSTOM__MINE": "("}, "no regular expression"),
        ({"DRIVETRAIN_PROXY_REDACTION__CUSTOM__MINE": "x*"}, "empty text"),
        ({"DRIVETRAIN_PROXY_POLICIES": '{"a": {"model": "m", "replicas": "http://a"}}'}, "model and policies exclude"),
        ({"DRIVETRAIN_PROXY_POLICIES": '{"A b": {"model": "m", "replicas": "http://a"}}'}, "policies"),
        ({"DRIVETRAIN_PROXY_POLICIES": '{"a": {"model": "m"}}'}, "policies.a.replicas"),
    ],
)
def test_mistakes_are_named(bad: dict[str, str], words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        resolve(ProxySettings, "proxy", [], ONE | bad)


@pytest.mark.parametrize(
    "closed",
    [
        {"DRIVETRAIN_PROXY_ACCESS__OPEN": "true"},
        {"DRIVETRAIN_PROXY_ACCESS__KEYS": "keys.toml"},
        {"DRIVETRAIN_PROXY_LISTEN__HOST": "::1, localhost"},
    ],
)
def test_other_machines_are_served_with_keys_or_where_the_operator_says_so(closed: dict[str, str]) -> None:
    settings = resolve(ProxySettings, "proxy", [], ONE | {"DRIVETRAIN_PROXY_LISTEN__HOST": "0.0.0.0"} | closed)
    assert settings.listen.beyond == ([] if "DRIVETRAIN_PROXY_LISTEN__HOST" in closed else ["0.0.0.0"])


def test_replicas_of_the_short_form_say_nothing_beside_a_table() -> None:
    several = {"DRIVETRAIN_PROXY_POLICIES": '{"a": {"model": "m", "replicas": "http://a"}}'}
    with pytest.raises(BadSettings, match=r"engine\.replicas and policies exclude"):
        resolve(ProxySettings, "proxy", ["--engine.replicas", "http://b"], SECRET | several)
