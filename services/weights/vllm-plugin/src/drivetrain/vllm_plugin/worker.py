"""What the weights service asks of vLLM's workers beside vLLM's own calls, over `/collective_rpc`.

vLLM mixes this class into its workers by `--worker-extension-cls drivetrain.vllm_plugin.worker.StagingWorker`.
"""

from typing import Any

from drivetrain.vllm_plugin.engine import FolderEngine


class StagingWorker:
    """`weight_transfer_engine` is the worker's own."""

    weight_transfer_engine: Any

    def drivetrain_stage(self, update_info: dict[str, Any]) -> dict[str, object]:
        """Begin to make a checkpoint ready beside the running requests; see `Staging.status` for the answer."""
        engine = self._engine()
        engine.staging.begin(engine.wanted(update_info))
        return engine.staging.status()

    def drivetrain_staged(self) -> dict[str, object]:
        """How far the checkpoint is that was staged last."""
        return self._engine().staging.status()

    def drivetrain_loaded(self) -> dict[str, object]:
        """The sha256 of each file of the checkpoint that was loaded last, as its bytes were handed to the model."""
        return {"digests": dict(self._engine().loaded)}

    def _engine(self) -> FolderEngine:
        if not isinstance(self.weight_transfer_engine, FolderEngine):
            raise RuntimeError('start vLLM with --weight-transfer-config \'{"backend": "drivetrain"}\'')
        return self.weight_transfer_engine
