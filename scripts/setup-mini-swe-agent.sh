#!/usr/bin/env bash
# Create .harness/mini: mini-swe-agent in an environment of its own, as a person would install it.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "setting up .harness/mini"
"$PYTHON" -m venv .harness/mini
pip=.harness/mini/bin/pip
$pip install -q --no-deps mini-swe-agent==2.4.6
$pip install -q litellm pyyaml requests jinja2 python-dotenv platformdirs prompt_toolkit rich typer tenacity
