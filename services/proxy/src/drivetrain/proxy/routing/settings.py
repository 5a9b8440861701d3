"""What an operator may set about policies, their replicas, and the way to them."""

from typing import Annotated

from pydantic import AfterValidator, Field

from drivetrain.common.settings import Section
from drivetrain.proxy.routing.admission import Limits


def split(text: str) -> tuple[str, ...]:
    """The non-empty parts of a comma-separated list of URLs, without trailing slashes."""
    return tuple(part.strip().rstrip("/") for part in text.split(",") if part.strip())


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

    max_in_flight: int = Field(1024, ge=1, description="requests at one replica at once; also bounds the connections")
    queue_s: float = Field(30.0, ge=0, description="longest wait for a place at a replica")
    max_queued: int = Field(1024, ge=0, description="requests of one policy that may wait")
    max_lead: int = Field(8, ge=0, description="requests more than the least loaded before a session changes replica")
    max_lag: int = Field(1, ge=0, description="versions behind the newest before other replicas are preferred")
    max_staleness: int = Field(4, ge=1, description="versions behind the trainer before rollouts must wait")
    probe_s: float = Field(2.0, gt=0, description="between two looks at the replicas and at the trainer's versions")

    @property
    def limits(self) -> Limits:
        """What binds a request."""
        return Limits(
            max_in_flight=self.max_in_flight,
            queue_s=self.queue_s,
            max_queued=self.max_queued,
            max_lead=self.max_lead,
            max_lag=self.max_lag,
            max_staleness=self.max_staleness,
        )
