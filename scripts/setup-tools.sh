#!/usr/bin/env bash
# Create .venv-tools: the checkers of compose files, manifests and Dockerfiles, and an S3 server.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "setting up .venv-tools"
"$PYTHON" -m venv .venv-tools
.venv-tools/bin/pip install -q -r deploy/tools.txt
