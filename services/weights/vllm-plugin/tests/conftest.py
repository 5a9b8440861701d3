"""The plugin lives in vLLM's environment; its checks of checkpoints need only torch and safetensors."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "src"))
