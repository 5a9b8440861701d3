"""Harness adapters: one declarative file each in `adapters/`, no code."""

from drivetrain.common.harnesses.declaration import End, Harness, SettingsFile, parse_harness
from drivetrain.common.harnesses.filling import Filled, fill, fill_connection
from drivetrain.common.harnesses.loading import built_in_folder, load_harnesses

__all__ = [
    "End",
    "Filled",
    "Harness",
    "SettingsFile",
    "built_in_folder",
    "fill",
    "fill_connection",
    "load_harnesses",
    "parse_harness",
]
