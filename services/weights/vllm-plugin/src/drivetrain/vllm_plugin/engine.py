"""The weight transfer engine: checks a checkpoint beside the requests, then loads it into the running model in place.

vLLM runs `update_weights` between two steps of the engine, so no token is computed while weights are half replaced.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.logger import init_logger
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.model_loader import get_model_loader
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from drivetrain.vllm_plugin.adapter import verify_adapter
from drivetrain.vllm_plugin.checkpoint import (
    BadCheckpoint,
    FileEntry,
    TensorEntry,
    catalogue,
    read,
    verify_files,
    verify_finite,
    verify_fit,
)
from drivetrain.vllm_plugin.staging import Ready, Staging, Wanted, look

logger = init_logger("vllm.drivetrain")


class DamagedModel(RuntimeError):
    """Loading failed halfway although all checks passed. The model cannot serve: restart this server."""


def repack_tied(model: torch.nn.Module) -> None:
    """Process every layer again whose weight belongs to another layer too, such as a head tied to the embedding.

    The layerwise reload skips a layer for which no weights arrive, so a tied head would go on computing with the old
    weights that it had packed for the CPU.
    """
    owners = Counter(id(_weight(module)) for module in model.modules() if isinstance(_weight(module), torch.Tensor))
    for module in model.modules():
        method = getattr(module, "quant_method", None)
        if isinstance(method, QuantizeMethodBase) and owners[id(_weight(module))] > 1:
            method.process_weights_after_loading(module)


def _weight(module: torch.nn.Module) -> object:
    return module._parameters.get("weight")


@dataclass
class FolderInit(WeightTransferInitInfo):  # type: ignore[misc]
    """The engine needs no rendezvous."""


@dataclass
class FolderUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]
    """One checkpoint: its folder as this server sees it, and per file `{"sha256": hex, "size": bytes}`; or where it is
    in an archive. See `Wanted`."""

    folder: str = ""
    files: dict[str, dict[str, str | int]] = field(default_factory=dict)
    kind: str = "full"
    archive: str = ""
    policy: str = ""
    version: int = 0
    digest: str = ""

    def wanted(self) -> Wanted:
        """Raises BadCheckpoint when an entry lacks a field."""
        try:
            files = {name: FileEntry(str(e["sha256"]), int(e["size"])) for name, e in self.files.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise BadCheckpoint(f"update_info.files needs sha256 and size for each file: {error!r}") from error
        return Wanted(self.folder, files, self.kind, self.archive, self.policy, self.version, self.digest)


class FolderEngine(WeightTransferEngine[FolderInit, FolderUpdate]):  # type: ignore[misc]
    """Loads full checkpoints from a folder that the server can read, or from an archive."""

    init_info_cls = FolderInit
    update_info_cls = FolderUpdate
    supports_draft_weight_update = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.staging = Staging(self._checked)
        self.loaded: Mapping[str, str] = {}

    def wanted(self, update_info: dict[str, object]) -> Wanted:
        """The checkpoint that an update names.

        Raises:
            BadCheckpoint: it names none.
        """
        wanted: Wanted = self.parse_update_info(update_info).wanted()
        return wanted

    def init_transfer_engine(self, init_info: FolderInit) -> None:
        """Nothing to connect to."""

    def start_weight_update(self) -> None:
        """Nothing is prepared: the model stays whole until `receive_weights` has checked everything."""

    def finish_weight_update(self) -> None:
        """The weights were complete when `receive_weights` returned."""

    def shutdown(self) -> None:
        """No resources are held between updates."""

    def update_weights(self, update_info: dict[str, object]) -> None:
        """As the base class, but synchronises only where there is an accelerator.

        Raises:
            BadCheckpoint: the checkpoint was refused, the model was not touched.
            DamagedModel: the load itself failed.
        """
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FolderUpdate) -> None:
        """Load a checkpoint that passed every check, before this call if it was staged; see `update_weights`."""
        started = time.monotonic()
        ready = self.staging.take(update_info.wanted())
        checked = time.monotonic()
        try:
            initialize_layerwise_reload(self.model)
            self.model.load_weights(read(ready.tensors))
            finalize_layerwise_reload(self.model, self.model_config)
            repack_tied(self.model)
        except Exception as error:
            raise DamagedModel(f"loading {ready.folder} failed halfway, restart this server: {error}") from error
        self.loaded = ready.digests
        logger.info(
            "loaded %s: checks %.2f s, load %.2f s", ready.folder, checked - started, time.monotonic() - checked
        )

    def _checked(self, wanted: Wanted) -> Ready:
        folder, files, fetched = Path(wanted.folder), wanted.files, 0
        if wanted.archive:
            # Only who has an archive needs the library that reads one
            from drivetrain.vllm_plugin.archive import fetch

            folder, manifest, fetched = fetch(wanted.archive, wanted.policy, wanted.version, wanted.digest)
            files = {entry.name: FileEntry(entry.sha256, entry.size) for entry in manifest.files}
        looks = {folder / name: look(folder / name) for name in files if (folder / name).is_file()}
        tensors = catalogue(verify_files(folder, files))
        if wanted.kind == "adapter":
            verify_adapter(folder, tensors, self._wanted())
        else:
            verify_fit(tensors, self._wanted(), self._tied())
        verify_finite(tensors)
        return Ready(folder, tensors, {name: entry.sha256 for name, entry in files.items()}, fetched, looks)

    def _wanted(self) -> dict[str, TensorEntry]:
        """What the model's own checkpoint holds: vLLM packs parameters, so only the files know the outside names."""
        loader = get_model_loader(self.vllm_config.load_config)
        if not hasattr(loader, "_prepare_weights"):
            raise BadCheckpoint(f"load format {self.vllm_config.load_config.load_format} has no safetensors files")
        _, files, safetensors, *_ = loader._prepare_weights(
            self.model_config.model, None, self.model_config.revision, False, None
        )
        if not safetensors:
            raise BadCheckpoint(f"the served model {self.model_config.model} has no safetensors files to compare with")
        return catalogue([Path(file) for file in files])

    def _tied(self) -> tuple[str, ...]:
        return ("lm_head.weight",) if getattr(self.model_config.hf_config, "tie_word_embeddings", False) else ()
