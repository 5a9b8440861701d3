"""What an operator may set on the proxy; see `drivetrain.common.settings` for where values come from."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from drivetrain.common.settings import Section, Settings


class ListenSettings(Section):
    """The listener that harnesses reach."""

    host: str = "127.0.0.1"
    port: int = Field(8411, ge=0, le=65535, description="0 picks a free port")


def _urls(value: str) -> str:
    urls = split(value)
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError("give at least one URL such as http://127.0.0.1:8000, several separated by commas")
    if len(set(urls)) < len(urls):
        raise ValueError("each replica is named once")
    return value


Urls = Annotated[str, AfterValidator(_urls)]
PolicyName = Annotated[str, Field(pattern="^[a-z0-9_-]{1,64}$")]


class PolicySettings(Section):
    """One policy of several: its model, and the vLLM replicas that serve it."""

    model: str = Field(description="folder with the tokenizer and chat template")
    renderer: str = Field("auto", description="auto, default (the model's own template), or a renderer's name")
    tool_parser: str = Field("qwen3", description="how the default renderer reads tool calls")
    replicas: Urls = Field(description="base URLs of vLLM servers, separated by commas")
    context_tokens: int = Field(0, ge=0, description="prompt and reply together; 0 asks the engine")

    @property
    def urls(self) -> tuple[str, ...]:
        """The replicas' base URLs without a trailing slash."""
        return split(self.replicas)


class EngineSettings(Section):
    """The vLLM replicas of a single policy, and how long to wait for any replica."""

    replicas: Urls = Field("http://127.0.0.1:8000", description="base URLs of vLLM servers, separated by commas")
    context_tokens: int = Field(0, ge=0, description="prompt and reply together; 0 asks the engine")
    connect_s: float = Field(5.0, gt=0, description="time to connect before another replica is tried")
    first_byte_s: float = Field(300.0, gt=0, description="longest wait for the first token")
    stall_s: float = Field(120.0, gt=0, description="longest silence in mid-reply before it counts as broken")


class RoutingSettings(Section):
    """Which replica answers, and how long a request waits for one."""

    max_in_flight: int = Field(256, ge=1, description="requests at one replica at once; also bounds the connections")
    queue_s: float = Field(30.0, ge=0, description="longest wait for a place at a replica")
    max_queued: int = Field(1024, ge=0, description="requests of one policy that may wait")
    max_lead: int = Field(8, ge=0, description="requests more than the least loaded before a session changes replica")
    max_lag: int = Field(1, ge=0, description="versions behind the newest before other replicas are preferred")
    max_staleness: int = Field(4, ge=1, description="versions behind the trainer before rollouts must wait")
    probe_s: float = Field(2.0, gt=0, description="between two looks at the replicas and at the trainer's versions")


class SessionSettings(Section):
    """The session index in Redis, through which every proxy replica knows every conversation, and idle turns."""

    redis_url: str = Field("redis://127.0.0.1:6379/0", description="Redis or Valkey")
    timeout_s: float = Field(0.5, gt=0, description="after this the local cache must do")
    keep_s: int = Field(86_400, ge=60, description="how long a conversation can be continued after its last turn")
    idle_s: float = Field(1800.0, gt=0, description="a turn that nothing follows for so long went idle")
    cache_bytes: int = Field(256 << 20, ge=1 << 20, description="size of the local cache")


class SpoolSettings(Section):
    """The local log that holds finished turns until the bus has them. One folder belongs to one process."""

    folder: Path = Path("spool")
    max_bytes: int = Field(4 << 30, ge=1 << 16, description="beyond this, turns are answered but not recorded")
    segment_bytes: int = Field(64 << 20, ge=1 << 12)
    fsync: bool = Field(False, description="survive a crash of the machine too, for some milliseconds a turn")


class ProxySettings(Settings):
    """Settings of the proxy."""

    policies: dict[PolicyName, PolicySettings] = Field({}, description="by name; or a single one by the next four")
    policy: PolicyName = Field("default", description="the policy served, as requests name it in `model`")
    model: str = Field("", description="folder with the tokenizer and chat template")
    renderer: str = Field("auto", description="auto, default (the model's own template), or a renderer's name")
    tool_parser: str = Field("qwen3", description="how the default renderer reads tool calls")
    secret: SecretStr = Field(description="signs session ids and rollout keys; the same for all services")
    consent: Literal["off", "record", "train"] = Field("train", description="when a request does not say")
    rollout_temperature: float = Field(1.0, gt=0, le=2, description="rollouts are sampled at this temperature")
    max_body_bytes: int = Field(16 << 20, ge=1 << 10)
    thread_chars: int = Field(16_000, ge=0, description="longer conversations are rendered off the event loop")
    listen: ListenSettings = ListenSettings()
    engine: EngineSettings = EngineSettings()
    routing: RoutingSettings = RoutingSettings()
    sessions: SessionSettings = SessionSettings()
    spool: SpoolSettings = SpoolSettings()

    @field_validator("secret")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 16:
            raise ValueError("a secret needs at least 16 characters")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        single = {"policy", "model", "renderer", "tool_parser"} & self.model_fields_set
        single |= {f"engine.{name}" for name in {"replicas", "context_tokens"} & self.engine.model_fields_set}
        if self.policies and single:
            raise ValueError(f"{', '.join(sorted(single))} and policies exclude each other: say it in each policy")
        if not self.policies and not self.model:
            raise ValueError("model: name a folder with a tokenizer and chat template, or several policies")
        return self

    @property
    def served(self) -> dict[str, PolicySettings]:
        """Every policy by its name, in whichever form it was set."""
        single = PolicySettings(
            model=self.model,
            renderer=self.renderer,
            tool_parser=self.tool_parser,
            replicas=self.engine.replicas,
            context_tokens=self.engine.context_tokens,
        )
        return self.policies or {self.policy: single}


def split(text: str) -> tuple[str, ...]:
    """The non-empty parts of a comma-separated list of URLs, without trailing slashes."""
    return tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())
