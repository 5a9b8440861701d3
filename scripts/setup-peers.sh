#!/usr/bin/env bash
# Create .venv-peers: the proxies that the proxy benchmark compares with, in an environment of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "setting up .venv-peers (about two minutes)"
"$PYTHON" -m venv .venv-peers
.venv-peers/bin/pip install -q -r benchmarks/proxy/peers.txt
