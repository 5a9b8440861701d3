#!/usr/bin/env bash
# Create .harness/mini: mini-swe-agent in an environment of its own, as a person would install it.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "setting up .harness/mini"
"$PYTHON" -m venv .harness/mini
pip=.harness/mini/bin/pip
$pip install -q --no-deps mini-swe-agent==2.4.6
$pip install -q litellm==1.110.2 pyyaml==6.0.4 requests==2.34.2 jinja2==3.1.6 python-dotenv==1.2.4 platformdirs==4.14.9 \
    prompt_toolkit==3.0.53 rich==15.0.0 typer==0.29.2 tenacity==9.2.1
