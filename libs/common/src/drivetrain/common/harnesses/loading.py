"""Finding harness adapters: those that come with Drivetrain, and a user's own."""

from collections.abc import Iterable
from pathlib import Path

from drivetrain.common.declarations import BadDeclaration, read_toml
from drivetrain.common.harnesses.declaration import Harness, parse_harness


def load_harnesses(folders: Iterable[Path] = ()) -> dict[str, Harness]:
    """The built-in harnesses and those in the `*.toml` files of more folders, by name; a later folder overrides.

    Raises:
        BadDeclaration: a folder is missing, a file is bad, or its name is not its harness's.
    """
    found: dict[str, Harness] = {}
    for folder in (built_in_folder(), *folders):
        if not folder.is_dir():
            raise BadDeclaration(f"the harness folder {folder} does not exist: create it or correct harness_folders")
        for path in sorted(folder.glob("*.toml")):
            harness = parse_harness(read_toml(path), str(path))
            if harness.name != path.stem:
                raise BadDeclaration(f"{path}: name is {harness.name!r}: rename the file or the harness to agree")
            found[harness.name] = harness
    return found


def built_in_folder() -> Path:
    """Where the adapters that come with Drivetrain lie."""
    return Path(__file__).parent / "adapters"
