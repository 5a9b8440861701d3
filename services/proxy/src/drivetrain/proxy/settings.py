"""What an operator may set on the proxy; see `drivetrain.common.settings` for where values come from."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from drivetrain.common.settings import Section, Settings


class ListenSettings(Section):
    """The listener that harnesses reach."""

    host: str = "127.0.0.1"
    port: int = Field(8411, ge=0, le=65535, description="0 picks a free port")


class EngineSettings(Section):
    """The vLLM replicas that serve the policy, and how long to wait for them."""

    replicas: str = Field("http://127.0.0.1:8000", description="base URLs of vLLM servers, separated by commas")
    connect_s: float = Field(5.0, gt=0, description="time to connect before another replica is tried")
    first_byte_s: float = Field(300.0, gt=0, description="longest wait for the first token")
    stall_s: float = Field(120.0, gt=0, description="longest silence in mid-reply before it counts as broken")
    context_tokens: int = Field(0, ge=0, description="prompt and reply together; 0 asks the engine")

    @field_validator("replicas")
    @classmethod
    def _urls(cls, value: str) -> str:
        urls = split(value)
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise ValueError("give at least one URL such as http://127.0.0.1:8000, several separated by commas")
        return value

    @property
    def urls(self) -> tuple[str, ...]:
        """The replicas' base URLs without a trailing slash."""
        return split(self.replicas)


class SessionSettings(Section):
    """The session index in Redis, through which every proxy replica knows every conversation."""

    redis_url: str = Field("redis://127.0.0.1:6379/0", description="Redis or Valkey")
    timeout_s: float = Field(0.5, gt=0, description="after this the local cache must do")
    keep_s: int = Field(86_400, ge=60, description="how long a conversation can be continued after its last turn")
    cached_tokens: int = Field(20_000_000, ge=0, description="size of the local cache, in tokens")


class SpoolSettings(Section):
    """The local log that holds finished turns until the bus has them. One folder belongs to one process."""

    folder: Path = Path("spool")
    max_bytes: int = Field(4 << 30, ge=1 << 16, description="beyond this, turns are answered but not recorded")
    segment_bytes: int = Field(64 << 20, ge=1 << 12)
    fsync: bool = Field(False, description="survive a crash of the machine too, for some milliseconds a turn")


class ProxySettings(Settings):
    """Settings of the proxy."""

    policy: str = Field("default", pattern="^[a-z0-9_-]{1,64}$", description="the policy served, as `model` names it")
    model: str = Field(description="folder with the tokenizer and chat template")
    renderer: str = Field("auto", description="auto, default (the model's own template), or a renderer's name")
    tool_parser: str = Field("qwen3", description="how the default renderer reads tool calls")
    secret: SecretStr = Field(description="signs session ids and rollout keys; the same for all services")
    consent: Literal["off", "record", "train"] = Field("train", description="when a request does not say")
    rollout_temperature: float = Field(1.0, gt=0, le=2, description="rollouts are sampled at this temperature")
    max_body_bytes: int = Field(16 << 20, ge=1 << 10)
    thread_chars: int = Field(16_000, ge=0, description="longer conversations are rendered off the event loop")
    listen: ListenSettings = ListenSettings()
    engine: EngineSettings = EngineSettings()
    sessions: SessionSettings = SessionSettings()
    spool: SpoolSettings = SpoolSettings()

    @field_validator("secret")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 16:
            raise ValueError("a secret needs at least 16 characters")
        return value


def split(text: str) -> tuple[str, ...]:
    """The non-empty parts of a comma-separated list of URLs, without trailing slashes."""
    return tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
