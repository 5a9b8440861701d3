"""Drivetrain inside vLLM: a weight transfer engine named `drivetrain` that loads full checkpoints from a folder.

Installed into vLLM's own environment; vLLM finds it through the entry point group `vllm.general_plugins`.
"""

BACKEND = "drivetrain"


def register() -> None:
    """Make the engine known to vLLM. vLLM calls this in each of its processes, possibly more than once."""
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, "drivetrain.vllm_plugin.engine", "FolderEngine")
