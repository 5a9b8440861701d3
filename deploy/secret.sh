#!/bin/sh
# Writes the secret that proxy and orchestrator share, as a settings file that compose mounts into both.
# An existing secret stays: a new one would make every session and rollout key of before unknown.
set -eu
file="${1:-$(dirname "$0")/secrets/drivetrain.toml}"
if [ -e "$file" ]; then
    echo "$file is there already" >&2
    exit 0
fi
# Containers read the file as a user of their own, so the folder, not the file, keeps other users of the machine out
mkdir -p -m 700 "$(dirname "$file")"
printf 'secret = "%s"\n' "$(head -c 32 /dev/urandom | base64 | tr -d '\n')" > "$file.new"
chmod 644 "$file.new"
mv "$file.new" "$file"
