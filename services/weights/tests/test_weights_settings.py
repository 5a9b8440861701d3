"""Settings, and the names that replicas get from them."""

from pathlib import Path

import pytest

from drivetrain.common.settings import BadSettings, resolve
from drivetrain.weights.app import replica_name
from drivetrain.weights.settings import WeightsSettings

ENVIRONMENT = {
    "DRIVETRAIN_WEIGHTS_POLICY": "main",
    "DRIVETRAIN_WEIGHTS_STORE": "checkpoints",
    "DRIVETRAIN_WEIGHTS_REPLICAS": '["http://127.0.0.1:8000/", "http://[::1]:8001"]',
}


def test_the_environment_alone_is_enough() -> None:
    settings = resolve(WeightsSettings, "weights", environ=ENVIRONMENT)
    assert settings.replicas == ["http://127.0.0.1:8000", "http://[::1]:8001"]
    assert (settings.policy, settings.store, settings.probe_tolerance) == ("main", Path("checkpoints"), 1e-3)


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://host:8000/v1", "ftp://host"])
def test_a_replica_that_is_no_base_url_is_refused_by_name(url: str) -> None:
    with pytest.raises(BadSettings, match="base URL"):
        resolve(WeightsSettings, "weights", environ={**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_REPLICAS": f'["{url}"]'})


def test_no_replica_is_refused() -> None:
    with pytest.raises(BadSettings, match="replicas"):
        resolve(WeightsSettings, "weights", environ={**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_REPLICAS": "[]"})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8000", "127-0-0-1-8000"),
        ("http://vllm-0.vllm:8000", "vllm-0-vllm-8000"),
        ("http://[::1]:8001", "--1-8001"),
        ("https://replica", "replica"),
    ],
)
def test_a_replicas_name_is_one_subject_token(url: str, name: str) -> None:
    assert replica_name(url) == name
