"""The store that a URL names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from drivetrain.common.store.blobs.base import Blobs

FORMS = "file:///folder, s3://bucket/prefix or nats://host:4222/bucket"


def checked_url(url: str) -> str:
    """The URL, if it has one of the forms of a store's.

    Raises:
        ValueError: it has none; the message names them.
    """
    parts = urlsplit(url)
    path = parts.path.strip("/")
    good = {
        "file": not parts.netloc and parts.path.startswith("/") and path != "",
        "s3": bool(parts.hostname),
        "nats": bool(parts.hostname) and path != "" and "/" not in path,
    }
    if not good.get(parts.scheme, False) or parts.query or parts.fragment:
        raise ValueError(f"{url!r} names no store: write it like {FORMS}")
    return url


def open_blobs(url: str, timeout_s: float = 60.0) -> Blobs:
    """The store at a URL. Nothing is asked of it yet.

    Raises:
        ValueError: the URL names none.
    """
    parts = urlsplit(checked_url(url))
    path = unquote(parts.path).strip("/")
    if parts.scheme == "file":
        from drivetrain.common.store.blobs.local import LocalBlobs

        return LocalBlobs(Path("/") / path)
    if parts.scheme == "s3":
        from drivetrain.common.store.blobs.s3 import S3Blobs

        return S3Blobs(parts.netloc, path, timeout_s)
    from drivetrain.common.store.blobs.jetstream import JetStreamBlobs

    return JetStreamBlobs(f"nats://{parts.netloc}", path, timeout_s)
