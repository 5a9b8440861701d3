"""A replica in this process that answers as vLLM with the plugin does: labels, staging, full weights, adapters.

It reads what it is told to load, and its logprobs are those of the manifest beside the files, so it proves what it
serves. It has no model.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from drivetrain.common.store import Manifest
from drivetrain.common.store.checkpoints import file_entry
from tests.servers import free_port


class VllmDouble:
    """`version` is its label, `folder` where its full weights lie; `asked` lists the paths of requests."""

    def __init__(self) -> None:
        self.version, self.folder = "default", Path()
        self.adapters: dict[str, Path] = {}
        self.paused = False
        self.asked: list[str] = []
        self.url = ""
        self.labelled = asyncio.Condition()
        self._staged = Path()

    async def serves(self, version: int) -> None:
        """Wait until its tokens have this version."""
        async with self.labelled:
            await self.labelled.wait_for(lambda: self.version == str(version))

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator["VllmDouble"]:
        """Answer at `url`."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        port = port or free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        body = json.loads(await request.text() or "{}")
        if request.path == "/collective_rpc":
            return web.json_response(await self._worker(body["method"], body["kwargs"]))
        await self._act(request.path, body)
        facts: dict[str, Any] = {
            "/weight_info": {"weight_version": self.version},
            "/is_paused": {"is_paused": self.paused},
            "/v1/models": {"data": [{"id": name} for name in ("base", *self.adapters)]},
        }
        if request.path == "/inference/v1/generate":
            return web.json_response({"prompt_logprobs": self._logprobs(body)})
        return web.json_response(facts.get(request.path, {}))

    async def _act(self, path: str, body: dict[str, Any]) -> None:
        match path:
            case "/pause" | "/resume":
                self.paused = path == "/pause"
            case "/update_weight_version":
                await self._label(body["new_version"])
            case "/update_weights":
                self.folder = self._staged
            case "/finish_weight_update":
                await self._label(body.get("weight_version", self.version))
            case "/v1/load_lora_adapter":
                self.adapters[body["lora_name"]] = Path(body["lora_path"])
            case "/v1/unload_lora_adapter":
                self.adapters.pop(body["lora_name"], None)

    async def _worker(self, method: str, named: dict[str, Any]) -> dict[str, Any]:
        if method == "drivetrain_stage":
            self._staged = Path(named["update_info"]["folder"])
        digests = await asyncio.to_thread(self._digests)
        ready = {"state": "ready", "folder": str(self._staged), "digests": digests, "fetched_bytes": 0}
        return {"results": [ready]}

    async def _label(self, version: str) -> None:
        async with self.labelled:
            self.version = version
            self.labelled.notify_all()

    def _digests(self) -> dict[str, str]:
        return {entry.name: file_entry(self._staged / entry.name).sha256 for entry in read(self._staged).files}

    def _logprobs(self, body: dict[str, Any]) -> list[Any]:
        manifest = read(self.adapters.get(body.get("model", ""), self.folder))
        pairs = zip(body["token_ids"][1:], manifest.probe.logprobs, strict=True)
        return [None, *({str(token): {"logprob": logprob}} for token, logprob in pairs)]


def read(folder: Path) -> Manifest:
    """The manifest beside a checkpoint's files."""
    return msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
