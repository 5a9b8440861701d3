"""The shell scripts that a pod runs for a lease: they need sh, tar and the core tools, as images have them. Pure."""

import shlex
from collections.abc import Mapping

from drivetrain.orchestrator.backends.kubernetes.objects import CONTROL, KEY

NOT_THERE = 44
"""Exit status of a script that found no file, or only a link."""
MISSING = 45
"""Exit status of a script whose program is not there."""

BEGIN = f"""
run={CONTROL}/runs/$1
if [ ! -d "$run" ]; then
    rm -rf "$run.new" && mkdir -p "$run.new" && head -c "$2" > "$run.new/command" && echo "$3" > "$run.new/limit" &&
    mv "$run.new" "$run" || exit 1
fi
[ -e "$run/began" ] || echo "$1" > {CONTROL}/wake
while [ ! -e "$run/status" ]; do sleep 0.05; done
cat "$run/status"
"""
"""Has a command run, unless it did, and prints its end. $1: its id, $2: the length of its script on the input, $3: its
seconds."""

BEGAN = f'[ -e {CONTROL}/runs/"$1"/began ]'

SWEEP = """
case $(tr '\\0' ' ' < /proc/1/cmdline) in *supervisor*) kill -KILL -1 ;; *) exit 1 ;; esac
"""
"""Ends every process of the pod but the supervisor."""

UPLOAD = 'mkdir -p "$1" && head -c "$2" | tar -x -f - -C "$1" --no-same-owner'
"""Unpacks $2 bytes of the input over the folder $1."""

_REAL = f"""
here=$(cd "$1" 2>/dev/null && pwd -P) && there=$(cd "$(dirname "$1/$2")" 2>/dev/null && pwd -P) || exit {NOT_THERE}
path=$1/$2
case "$there/" in "$here/"*|"$here") ;; *) [ -z "$2" ] || [ "$2" = . ] || exit {NOT_THERE} ;; esac
[ -L "$path" ] && exit {NOT_THERE}
"""

DOWNLOAD = f"""{_REAL}
[ -d "$path" ] && chmod -R u+rwX "$path" && exec tar -c -f - -C "$path" .
[ -f "$path" ] || exit {NOT_THERE}
exec tar -c -f - -C "$there" "./$(basename "$path")"
"""
"""Packs the folder or file $2 of the place $1, unless it is a link or is reached through one."""

READ = f"""{_REAL}
[ -f "$path" ] || exit {NOT_THERE}
exec head -c "$3" "$path"
"""

LOGS = f'tail -c "$1" {CONTROL}/output'


def command_script(argv: tuple[str, ...], environment: Mapping[str, str], workdir: str, key: str) -> str:
    """What runs a command line with an environment. The key is taken from the pod's own environment, so that it is in
    no script."""
    lines = [f"export {name}={quoted(value, key)}" for name, value in environment.items()]
    program = shlex.quote(argv[0])
    return "\n".join(
        [
            *lines,
            f"cd {shlex.quote(workdir)} || exit 1",
            f"command -v {program} > /dev/null 2>&1 || exit {MISSING}",
            f"exec {' '.join(quoted(word, key) for word in argv)}",
            "",
        ]
    )


def quoted(text: str, key: str) -> str:
    """A word for the shell, with the key, wherever it stands in it, as a variable."""
    if not key:
        return shlex.quote(text)
    return f'"${KEY}"'.join(shlex.quote(part) if part else "" for part in text.split(key)) or "''"
