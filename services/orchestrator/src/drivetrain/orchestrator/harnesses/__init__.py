"""Harness adapters: one declarative file each, no code."""

from drivetrain.orchestrator.harnesses.declaration import (
    PLACEHOLDERS,
    Harness,
    HarnessEnd,
    built_in_folder,
    load_harnesses,
    parse_harness,
)

__all__ = ["PLACEHOLDERS", "Harness", "HarnessEnd", "built_in_folder", "load_harnesses", "parse_harness"]
