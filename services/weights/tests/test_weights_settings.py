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


def test_replicas_that_announce_themselves_need_not_be_named() -> None:
    environment = {**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_REPLICAS": "[]", "DRIVETRAIN_WEIGHTS_ANNOUNCED": "true"}
    assert resolve(WeightsSettings, "weights", environ=environment).replicas == []


def test_replicas_cannot_read_an_archive_that_is_not_there() -> None:
    with pytest.raises(BadSettings, match=r"only if archive\.url is set"):
        resolve(WeightsSettings, "weights", environ={**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_DELIVERY": "archive"})


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


def test_without_a_url_nothing_is_archived() -> None:
    assert resolve(WeightsSettings, "weights", environ=ENVIRONMENT).archive.url is None


def test_an_archive_is_named_by_url() -> None:
    environment = {**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_ARCHIVE__URL": "s3://bucket/versions"}
    archive = resolve(WeightsSettings, "weights", ["--archive.keep", "5"], environment).archive
    assert (archive.url, archive.keep, archive.max_age_days, archive.full_every) == ("s3://bucket/versions", 5, None, 8)


def test_an_archive_that_is_no_store_is_refused_with_the_forms() -> None:
    environment = {**ENVIRONMENT, "DRIVETRAIN_WEIGHTS_ARCHIVE__URL": "/checkpoints"}
    with pytest.raises(BadSettings, match=r"archive\.url: .*'/checkpoints' names no store: write it like file:///"):
        resolve(WeightsSettings, "weights", environ=environment)
