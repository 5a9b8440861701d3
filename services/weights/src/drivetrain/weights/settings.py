"""The weights service's settings."""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from drivetrain.common.settings import Section, Settings
from drivetrain.common.store.blobs import checked_url


def _base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is no replica's base URL: write it like http://127.0.0.1:8000")
    return url.rstrip("/")


class TimeoutSettings(Section):
    """How long the service waits, and how often it tries again."""

    call_s: float = Field(60, gt=0, description="seconds for a control call or a probe; a step of the engine fits in")
    load_s: float = Field(600, gt=0, description="seconds for a replica to check and load a checkpoint")
    attempts: int = Field(4, ge=1, le=100, description="tries at a replica that fails, before it counts as down")
    retry_s: float = Field(1.0, gt=0, description="seconds before the second try; doubles each time, at most 30")
    reconcile_s: float = Field(2.0, gt=0, description="seconds between two looks at what the replicas serve")
    drain_s: float = Field(60, ge=0, description="longest wait for requests on adapters before full weights change")
    unused_s: float = Field(10, ge=0, description="seconds after its last request before an old adapter is unloaded")


class ArchiveSettings(Section):
    """Where versions are kept beyond the trainer's folder, and how many. Without `url` nothing is archived."""

    url: Annotated[str, AfterValidator(checked_url)] | None = Field(
        None, description="file:///folder, s3://bucket/prefix or nats://host:4222/bucket"
    )
    keep: int = Field(20, ge=1, description="newest versions kept; pinned, used and needed ones stay beside them")
    max_age_days: float | None = Field(None, gt=0, description="versions older than this may go, also among the newest")
    full_every: int = Field(8, ge=1, le=1000, description="most deltas that follow one another")
    timeout_s: float = Field(60, gt=0, description="seconds for one request to the store")


class WeightsSettings(Settings):
    """Rolls each new version of one policy into its replicas."""

    policy: str = Field(pattern=r"^[a-z0-9_-]{1,64}$", description="the policy whose versions are served")
    store: Path = Field(description="the folder the trainer writes; replicas see it under the same path")
    replicas: list[Annotated[str, AfterValidator(_base_url)]] = Field([], description="vLLM base URLs")
    announced: bool = Field(False, description="also take in replicas that announce themselves for this policy")
    delivery: Literal["folder", "archive"] = Field("folder", description="where replicas read checkpoints")
    max_unavailable: int = Field(1, ge=1, description="replicas whose full weights change at the same time")
    sticky: bool = Field(False, description="a session keeps the version it began with; for adapters")
    probe_tolerance: float = Field(
        1e-3, gt=0, description="largest mean gap to the trainer's probe in nats; 0.1 where replicas serve bfloat16"
    )
    timeouts: TimeoutSettings = TimeoutSettings()
    archive: ArchiveSettings = ArchiveSettings()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.replicas and not self.announced:
            raise ValueError("replicas: name the base URL of one at least, or set announced")
        if self.delivery == "archive" and self.archive.url is None:
            raise ValueError("delivery: replicas can read the archive only if archive.url is set")
        return self
