"""What the Kubernetes backend is told."""

from pathlib import Path

from pydantic import Field

from drivetrain.common.settings import Section


class KubernetesSettings(Section):
    """Where and how pods run."""

    kubeconfig: Path | None = Field(None, description="a kubeconfig; none: KUBECONFIG, or the pod's own account")
    context: str | None = Field(None, description="the kubeconfig's context; none: its current one")
    namespace: str = Field("drivetrain-rollouts", pattern=r"^[a-z0-9-]{1,63}$", description="where the pods run")
    instance: str = Field(
        "drivetrain", pattern=r"^[a-z0-9-]{1,40}$", description="tells the Jobs of orchestrators in a namespace apart"
    )
    image: str = Field("", description="for tasks without an image: sh, tar, coreutils, and the harness")
    image_pull_policy: str = Field(
        "IfNotPresent", pattern="^(Always|IfNotPresent|Never)$", description="Always, IfNotPresent or Never"
    )
    image_pull_secrets: list[str] = Field([], description="names of secrets for private registries")
    runtime_class: str | None = Field(None, description="a RuntimeClass, such as gvisor or kata")
    node_selector: dict[str, str] = Field({}, description="labels that nodes must have")
    gpu_resource: str = Field("nvidia.com/gpu", description="the resource that a task's `gpus` counts")
    user: int = Field(10001, ge=1, description="the user and group that everything in a pod runs as")
    cpus: float = Field(1.0, gt=0, description="processors, where a task does not ask for some")
    memory_mb: int = Field(2048, ge=64, description="memory, where a task does not ask for some")
    storage_mb: int = Field(2048, ge=64, description="disk, where a task does not ask for some")
    request_share: float = Field(0.5, gt=0, le=1, description="what of a limit on processors and memory is reserved")
    start_s: float = Field(300.0, gt=0, description="seconds that a pod may take to run: room, image, admission")
    ttl_s: int = Field(3600, ge=0, description="seconds after which the cluster removes a finished Job that we did not")
    grace_s: float = Field(2.0, ge=0, le=60, description="seconds between SIGTERM and SIGKILL at a timeout")
