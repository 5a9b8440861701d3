"""Stores of values by key: a folder, S3, or JetStream, chosen by URL."""

from drivetrain.common.store.blobs.base import Blobs, Entry
from drivetrain.common.store.blobs.opening import checked_url, open_blobs

__all__ = ["Blobs", "Entry", "checked_url", "open_blobs"]
