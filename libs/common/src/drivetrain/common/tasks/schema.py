"""The keys of Harbor's task.toml, as they are spelled there, and our own table in it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from drivetrain.common.tasks.task import Seconds, Text

NetworkMode = Literal["public", "no-network", "allowlist"]
Size = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?[KMGkmg]$")]


class HarborAuthor(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a task."""

    name: str
    email: str | None = None


class HarborPackage(msgspec.Struct, frozen=True, kw_only=True):
    """`[task]`: the task's entry in a registry; `name` is `org/name`."""

    name: str
    description: str = ""
    authors: list[HarborAuthor] = []
    keywords: list[str] = []


class HarborHealthcheck(msgspec.Struct, frozen=True, kw_only=True):
    """When a container is ready."""

    command: Text
    interval_sec: float = 5
    timeout_sec: float = 30
    start_period_sec: float = 0
    start_interval_sec: float = 5
    retries: int = 3


class HarborMcpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server that the agent is told of."""

    name: str
    transport: Literal["sse", "streamable-http", "http", "stdio"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = []


class HarborEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """`[environment]`: the container. `memory`, `storage` and `allow_internet` are older spellings."""

    docker_image: Text | None = None
    build_timeout_sec: Seconds = 600
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Meta(gt=0)] | None = None
    memory_mb: Annotated[int, Meta(gt=0)] | None = None
    memory: Size | None = None
    storage_mb: Annotated[int, Meta(gt=0)] | None = None
    storage: Size | None = None
    gpus: Annotated[int, Meta(ge=0)] | None = None
    gpu_types: list[str] | None = None
    env: dict[str, str] = {}
    workdir: str | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []
    allow_internet: bool | None = None
    mcp_servers: list[HarborMcpServer] = []
    skills_dir: str | None = None
    healthcheck: HarborHealthcheck | None = None


class HarborAgent(msgspec.Struct, frozen=True, kw_only=True):
    """`[agent]`: how long the agent may work, and as whom."""

    timeout_sec: Seconds = 600
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []


class HarborCollect(msgspec.Struct, frozen=True, kw_only=True):
    """`[[verifier.collect]]`: a command before the artifacts are copied."""

    command: Text
    service: str = "main"
    timeout_sec: Seconds = 60
    user: str | int | None = None


class HarborVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """`[verifier]`. The mode makes no difference here: work is always graded in a sandbox of its own."""

    timeout_sec: Seconds = 600
    env: dict[str, str] = {}
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []
    environment_mode: Literal["shared", "separate"] | None = None
    environment: HarborEnvironment | None = None
    collect: list[HarborCollect] = []


class HarborSolution(msgspec.Struct, frozen=True, kw_only=True):
    """`[solution]`: what solve.sh finds in its environment."""

    env: dict[str, str] = {}


class HarborArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A path that the verifier gets to see."""

    source: Text
    destination: str | None = None
    service: str | None = None
    exclude: list[str] = []


class HarborTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task.toml. `version` is the older spelling of `schema_version`."""

    schema_version: str = "1.4"
    version: str | None = None
    task: HarborPackage | None = None
    metadata: dict[str, Any] = {}
    source: str | None = None
    agent: HarborAgent = HarborAgent()
    verifier: HarborVerifier = HarborVerifier()
    environment: HarborEnvironment = HarborEnvironment()
    solution: HarborSolution = HarborSolution()
    artifacts: list[HarborArtifact | str] = []
    steps: list[Any] = []
    multi_step_reward_strategy: str | None = None


class OnMachine(msgspec.Struct, frozen=True, kw_only=True):
    """`[metadata.drivetrain]`: the task also runs without its image, with the programs of the machine.

    environment/app is then the work folder at the start. `needs` are the programs that must be there; `setup` is a
    shell command in the work folder; `service` starts the server whose files lie in environment/service.
    """

    needs: tuple[Text, ...] = ()
    setup: Text | None = None
    service: Text | None = None
