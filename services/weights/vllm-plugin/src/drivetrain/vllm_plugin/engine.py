"""The weight transfer engine: checks a checkpoint folder, then loads it into the running model in place.

vLLM runs `update_weights` between two steps of the engine, so no token is computed while weights are half replaced.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

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
    """One full checkpoint: its folder as this server sees it, and per file `{"sha256": hex, "size": bytes}`."""

    folder: str
    files: dict[str, dict[str, str | int]] = field(default_factory=dict)

    def entries(self) -> dict[str, FileEntry]:
        """Raises BadCheckpoint when an entry lacks a field."""
        try:
            return {name: FileEntry(str(e["sha256"]), int(e["size"])) for name, e in self.files.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise BadCheckpoint(f"update_info.files needs sha256 and size for each file: {error!r}") from error


class FolderEngine(WeightTransferEngine[FolderInit, FolderUpdate]):  # type: ignore[misc]
    """Loads full checkpoints from a folder that the server can read."""

    init_info_cls = FolderInit
    update_info_cls = FolderUpdate
    supports_draft_weight_update = False

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
        """Check the checkpoint completely, then load it; see `update_weights` for errors."""
        started = time.monotonic()
        tensors = self._checked(update_info)
        checked = time.monotonic()
        try:
            initialize_layerwise_reload(self.model)
            self.model.load_weights(read(tensors))
            finalize_layerwise_reload(self.model, self.model_config)
            repack_tied(self.model)
        except Exception as error:
            raise DamagedModel(f"loading {update_info.folder} failed halfway, restart this server: {error}") from error
        logger.info(
            "loaded %s: checks %.2f s, load %.2f s", update_info.folder, checked - started, time.monotonic() - checked
        )

    def _checked(self, update: FolderUpdate) -> dict[str, TensorEntry]:
        tensors = catalogue(verify_files(Path(update.folder), update.entries()))
        verify_fit(tensors, self._wanted(), self._tied())
        verify_finite(tensors)
        return tensors

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
