"""Reasoning as an opaque text that clients send back unchanged, where they keep no plain one."""

import base64
import binascii
import zlib

_MARK = b"dt1"
"""Three bytes, so that every sealed text begins alike."""

_LARGEST = 4 << 20
"""Bytes of reasoning in one text; no reply has more."""


def seal(reasoning: str) -> str:
    """Reasoning as base64."""
    return base64.b64encode(_MARK + zlib.compress(reasoning.encode())).decode()


def unseal(text: str) -> str:
    """The reasoning of a sealed text, in either alphabet of base64; that of another provider cannot be read: ""."""
    try:
        data = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
        if not data.startswith(_MARK):
            return ""
        return zlib.decompressobj().decompress(data[len(_MARK) :], _LARGEST).decode(errors="replace")
    except (binascii.Error, zlib.error, ValueError):
        return ""
