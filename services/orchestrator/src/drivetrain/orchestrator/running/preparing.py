"""What is around a harness: a task's setup, its own settings files, and the service that runs beside it. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from drivetrain.common.harnesses import SettingsFile
from drivetrain.common.harnesses.documents import written

NOT_THERE = 'command -v {0} >/dev/null || {{ echo "this task needs {0}, which is not in $PATH"; exit 127; }}'
BESIDE = r"""
mkfifo "$TMPDIR/service.ready" || exit 1
/bin/sh -c "$1" > "$TMPDIR/service.ready" &
exec 9< "$TMPDIR/service.ready"
read -r line <&9 || { : > "$TMPDIR/service-failed"; exit 1; }
shift
exec "$@"
"""
"""Starts $1 in the background, waits for its first line, then becomes the rest. Descriptor 9 stays open, so that the
service can go on printing."""


def setup_script(needs: Sequence[str], setup: str | None) -> str:
    """What runs in a work folder before anyone works there; empty if there is nothing to do."""
    checks = [NOT_THERE.format(shlex.quote(program)) for program in needs]
    return "\n".join([*checks, setup or ""]).strip()


def beside_service(service: str, argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that starts a service, waits until it is ready and then runs `argv`. If the service ends
    without a word, the file $TMPDIR/service-failed tells of it, and `argv` is not run."""
    return ("/bin/sh", "-c", BESIDE, "sh", service, *argv)


def home_files(files: Iterable[SettingsFile], home: str) -> dict[str, bytes]:
    """A harness's settings files by their paths in the home folder."""
    return {
        str(PurePosixPath(file.path).relative_to(home)): written(file.format, file.content).encode() for file in files
    }


def after(commands: Sequence[Sequence[str]], argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that runs some commands one after the other and then, if all went well, becomes `argv`."""
    if not commands:
        return tuple(argv)
    script = " && ".join([*(f"{shlex.join(command)} < /dev/null" for command in commands), 'exec "$@"'])
    return ("/bin/sh", "-c", script, "sh", *argv)
