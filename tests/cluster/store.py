"""Objects with versions, as an API server keeps them: changes are numbered, and can be watched from any number on."""

import asyncio
import copy
import itertools
import time
from collections import deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


class ApiError(Exception):
    """A refusal, as the API words it."""

    def __init__(self, code: int, reason: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after

    def status(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }


@dataclass(frozen=True)
class Change:
    """One change; `before` are the labels that the object had."""

    version: int
    type: str
    kind: str
    object: Object
    before: dict[str, str] | None


class Store:
    """All objects of all kinds. Changes older than `kept` are forgotten: whoever asks for them is told 410."""

    def __init__(self, kept: int = 10_000) -> None:
        self._versions = itertools.count(1000)
        self._uids = itertools.count(1)
        self.version = 999
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changes: deque[Change] = deque(maxlen=kept)
        self.forgotten = 999
        self._waiting = asyncio.Event()

    def forget(self) -> None:
        """Compact: no watch can go on from before now."""
        self._changes.clear()
        self.forgotten = self.version

    def add(self, kind: str, item: Object) -> Object:
        """Store a new object.

        Raises:
            ApiError: 409, one of that name is there.
        """
        meta = item["metadata"]
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{next(self._uids):05d}"
        key = (kind, meta["namespace"], meta["name"])
        if key in self._objects:
            raise ApiError(409, "AlreadyExists", f'{kind} "{meta["name"]}" already exists')
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta |= {"uid": f"uid-{next(self._uids)}", "creationTimestamp": stamp}
        self._objects[key] = item
        return self._changed("ADDED", kind, item, None)

    def get(self, kind: str, namespace: str, name: str) -> Object:
        """One object.

        Raises:
            ApiError: 404.
        """
        found = self._objects.get((kind, namespace, name))
        if found is None:
            raise ApiError(404, "NotFound", f'{kind} "{name}" not found')
        return found

    def update(self, kind: str, item: Object) -> None:
        """Store a changed object, if it is still there."""
        meta = item["metadata"]
        if (kind, meta["namespace"], meta["name"]) in self._objects:
            self._changed("MODIFIED", kind, item, meta.get("labels"))

    def remove(self, kind: str, item: Object) -> None:
        """Remove an object."""
        meta = item["metadata"]
        if self._objects.pop((kind, meta["namespace"], meta["name"]), None) is not None:
            self._changed("DELETED", kind, item, meta.get("labels"))

    def list(self, kind: str, namespace: str, labels: str = "") -> list[Object]:
        """The objects of a kind whose labels match a selector."""
        found = (o for (k, n, _), o in self._objects.items() if k == kind and n == namespace)
        return [item for item in found if selected(item["metadata"].get("labels"), labels)]

    def since(self, version: int, kind: str) -> Iterator[Change]:
        """The changes after a version.

        Raises:
            ApiError: 410, they are forgotten.
        """
        oldest = self._changes[0].version if self._changes else self.version + 1
        if version < self.forgotten or (len(self._changes) == self._changes.maxlen and version < oldest - 1):
            raise ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")
        yield from [c for c in self._changes if c.version > version and c.kind == kind]

    def waiting(self) -> Coroutine[None, None, bool]:
        """Waits for the next change from now on."""
        return self._waiting.wait()

    def _changed(self, type_: str, kind: str, item: Object, before: dict[str, str] | None) -> Object:
        self.version = next(self._versions)
        item["metadata"]["resourceVersion"] = str(self.version)
        self._changes.append(Change(self.version, type_, kind, copy.deepcopy(item), before))
        waiting, self._waiting = self._waiting, asyncio.Event()
        waiting.set()
        return item


def selected(labels: dict[str, str] | None, selector: str) -> bool:
    """Whether labels match a selector of equalities."""
    wanted = dict(part.split("=", 1) for part in selector.split(",") if part)
    return wanted.items() <= (labels or {}).items()
