"""What an operator may set on the proxy; see `drivetrain.common.settings` for where values come from."""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self

import regex
from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from drivetrain.common.patterns import PATTERNS
from drivetrain.common.settings import Section, Settings
from drivetrain.proxy.routing.settings import EngineSettings, PolicyName, PolicySettings, RoutingSettings, split

PatternName = Annotated[str, Field(pattern="^[a-z0-9-]{1,32}$")]


class ListenSettings(Section):
    """The listeners that harnesses reach."""

    host: str = Field(
        "127.0.0.1", description="an address, or several separated by commas; empty for unix sockets alone"
    )
    port: int = Field(8411, ge=0, le=65535, description="0 picks a free port")
    certificate: Path | None = Field(None, description="PEM file with the certificate chain: then TCP speaks TLS")
    key: Path | None = Field(None, description="PEM file with the certificate's private key")
    unix: str = Field("", description="paths of unix sockets, separated by commas")
    unix_mode: str = Field("0600", pattern="^06[06]0$", description="0660 lets the sockets' group in")
    rollouts: Path | None = Field(None, description="folder where a rollout may have a unix socket of its own")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("listen.certificate and listen.key belong together: set both or none")
        if not self.hosts and not self.paths:
            raise ValueError("listen.host: name an address, or set listen.unix")
        return self

    @property
    def beyond(self) -> list[str]:
        """The addresses that other machines can reach."""
        return [host for host in self.hosts if not is_loopback(host)]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses to listen on."""
        return tuple(part.strip() for part in self.host.split(",") if part.strip())

    @property
    def paths(self) -> tuple[Path, ...]:
        """The unix sockets to listen on."""
        return tuple(Path(part.strip()) for part in self.unix.split(",") if part.strip())

    @property
    def mode(self) -> int:
        """The permissions of unix sockets."""
        return int(self.unix_mode, 8)


class AccessSettings(Section):
    """Whose requests are answered."""

    keys: Path | None = Field(None, description="file that `drivetrain keys` writes; without one every key is good")
    open: bool = Field(
        False, description="listen beyond this machine without keys: for a network that is closed itself"
    )


class LimitSettings(Section):
    """How large a request may be, and how slow its client. Seconds are for one request."""

    messages: int = Field(8000, ge=1, description="messages of one request")
    depth: int = Field(64, ge=1, le=500, description="levels of JSON in tools and schemas")
    server_tools: Literal["refuse", "ignore"] = Field(
        "refuse", description="what becomes of tools that only a provider's servers run, such as web_search"
    )
    head_bytes: int = Field(64 << 10, ge=1 << 10, description="request line and headers")
    head_s: float = Field(20.0, gt=0, description="for the headers to be whole")
    body_s: float = Field(120.0, gt=0, description="for the body to be whole")
    unread_s: float = Field(60.0, gt=0, description="for a client to read what is sent before it counts as gone")


def _patterns(value: dict[str, str]) -> dict[str, str]:
    for name, pattern in value.items():
        try:
            if regex.compile(pattern).match(""):
                raise ValueError(f"{name} matches the empty text: it would mask everything")
        except regex.error as error:
            raise ValueError(f"{name} is no regular expression: {error}") from error
    return value


class RedactionSettings(Section):
    """What is masked in everything that is recorded."""

    patterns: str = Field("", description=f"of {', '.join(PATTERNS)}, separated by commas")
    custom: Annotated[dict[PatternName, str], AfterValidator(_patterns)] = Field(
        {}, description="regular expressions of your own, by name"
    )

    @field_validator("patterns")
    @classmethod
    def _known(cls, value: str) -> str:
        if unknown := set(split(value)) - set(PATTERNS):
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PATTERNS)}")
        return value

    @property
    def chosen(self) -> dict[str, str]:
        """All regular expressions by name."""
        return {name: PATTERNS[name] for name in split(self.patterns)} | self.custom


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
    thread_chars: int = Field(
        16_000, ge=0, description="conversations with more new text are rendered off the event loop"
    )
    listen: ListenSettings = ListenSettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    redaction: RedactionSettings = RedactionSettings()
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

    @model_validator(mode="after")
    def _keys_where_others_reach(self) -> Self:
        if self.listen.beyond and self.access.keys is None and not self.access.open:
            raise ValueError(
                f"listen.host {', '.join(self.listen.beyond)} is open to other machines, and there are no API keys: "
                "make some with `drivetrain keys add` and set access.keys, or set access.open to true where the "
                "network itself is closed"
            )
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


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
