"""Where a version's weights come from: a checkpoint of the store, or for version 0 the base model's folder."""

from pathlib import Path

from drivetrain.common.store.checkpoints import BadCheckpoint, CheckpointStore, Manifest, Probe, file_entry
from drivetrain.weights.engines.base import Weights


class Source:
    """The versions of one policy. Its methods read whole files: call them off the event loop."""

    def __init__(self, store: CheckpointStore, policy: str) -> None:
        self.store = store
        self.policy = policy

    def versions(self) -> list[int]:
        """Stored versions, ascending."""
        return self.store.versions(self.policy)

    def verified(self, version: int, digest: str | None = None) -> tuple[Weights, Probe]:
        """A stored version, all its checksums verified, also the manifest's own when `digest` is given.

        Raises:
            BadCheckpoint: naming what is wrong.
        """
        manifest = self.store.manifest(self.policy, version)
        _check(manifest, self.policy, version, digest)
        self.store.verify(manifest)
        folder = self.store.path(self.policy, version).absolute()
        return Weights(version, folder, tuple(manifest.files)), manifest.probe

    def base(self) -> Weights:
        """The base model as version 0: the folder that the newest stored version names as its base.

        Raises:
            BadCheckpoint: nothing is stored, or that is no folder with safetensors files.
        """
        remedy = "restart the replica to bring it back to its base model"
        if not (versions := self.versions()):
            raise BadCheckpoint(f"the store does not know the base model of {self.policy}: {remedy}")
        folder = Path(self.store.manifest(self.policy, versions[-1]).base)
        files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
        if not files:
            raise BadCheckpoint(f"the base model {folder} is no folder with safetensors files here: {remedy}")
        return Weights(0, folder.absolute(), tuple(file_entry(file) for file in files))


def _check(manifest: Manifest, policy: str, version: int, digest: str | None) -> None:
    name = f"{policy}@{version}"
    if (manifest.policy, manifest.version) != (policy, version):
        raise BadCheckpoint(f"the manifest of {name} is that of {manifest.policy}@{manifest.version}")
    if manifest.kind != "full":
        raise BadCheckpoint(f"{name} is of kind {manifest.kind!r}: only full checkpoints can be rolled out")
    if digest is not None and manifest.digest() != digest:
        raise BadCheckpoint(f"the manifest of {name} is not the one that was announced")
