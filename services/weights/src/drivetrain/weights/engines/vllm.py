"""A vLLM replica (0.32 and newer, development endpoints on, weight transfer backend `drivetrain`).

`pause?mode=keep&clear_cache=true` preempts the running requests and empties the prefix cache before the weights
change, so the prompt and the tokens so far are computed again under the new weights and no stale key or value is used.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp

from drivetrain.weights.engines.base import EngineError, Refused, Serving, Weights


class VllmEngine:
    """See `Engine` for the contract. `call_s` bounds a control call or a probe, `load_s` the loading itself."""

    def __init__(self, url: str, name: str, call_s: float, load_s: float) -> None:
        self.name = name
        self._url = url.rstrip("/")
        self._call_s = call_s
        self._load_s = load_s
        # vLLM closes the connection after each error answer: a kept one could lose the /resume that must follow
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))

    async def serving(self) -> Serving:
        label = (await self._call("GET", "/weight_info"))["weight_version"]
        paused = (await self._call("GET", "/is_paused"))["is_paused"]
        return Serving(int(label) if str(label).isdecimal() else None, bool(paused))

    async def label(self, version: int) -> None:
        await self._call("POST", "/update_weight_version", {"new_version": str(version)})

    async def load(self, weights: Weights) -> None:
        swap = asyncio.ensure_future(self._swap(weights))
        try:
            await asyncio.shield(swap)
        except asyncio.CancelledError:
            # A load that has begun is ended properly: a paused replica would keep every request waiting
            await asyncio.wait([swap], timeout=self._load_s)
            raise

    async def logprobs(self, token_ids: Sequence[int]) -> list[float]:
        sampling = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        body = {"token_ids": list(token_ids), "sampling_params": sampling}
        answer = await self._call("POST", "/inference/v1/generate", body)
        try:
            entries = answer["prompt_logprobs"][1:]
            return [float(entry[str(token)]["logprob"]) for entry, token in zip(entries, token_ids[1:], strict=True)]
        except (KeyError, TypeError, ValueError) as error:
            raise EngineError(f"{self.name} answered the probe without logprobs of its tokens: {error!r}") from error

    async def close(self) -> None:
        await self._session.close()

    async def _swap(self, weights: Weights) -> None:
        try:
            await self._call("POST", "/pause?mode=keep&clear_cache=true")
            await self._begin()
            await self._update(weights)
            await self._finish(weights.version)
        finally:
            await self._call("POST", "/resume")

    async def _begin(self) -> None:
        """Open an update; one that an earlier life left open is closed first (closing changes nothing)."""
        try:
            await self._call("POST", "/start_weight_update")
        except EngineError:
            await self._call("POST", "/finish_weight_update", {})
            await self._call("POST", "/start_weight_update")

    async def _update(self, weights: Weights) -> None:
        files = {entry.name: {"sha256": entry.sha256, "size": entry.size} for entry in weights.files}
        body = {"update_info": {"folder": str(weights.folder), "files": files}}
        status, answer = await self._request("POST", "/update_weights", body, self._load_s)
        if status != 200:
            # An engine that died over something else answers 503 here: then the version is not at fault
            await self._call("GET", "/health")
            raise Refused(f"{self.name} refused version {weights.version}: {_reason(answer)}")

    async def _finish(self, version: int) -> None:
        """Close the update and label it. The weights are the new ones already, so the label must follow."""
        try:
            await self._call("POST", "/finish_weight_update", {"weight_version": str(version)})
        except EngineError:
            await self.label(version)

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = await self._request(method, path, body, self._call_s)
        if status != 200:
            raise EngineError(f"{self.name} answered {method} {path} with {status}: {_reason(answer)}")
        if not isinstance(answer, dict):
            raise EngineError(f"{self.name} answered {method} {path} with something else than a JSON object")
        return answer

    async def _request(self, method: str, path: str, body: dict[str, Any] | None, limit_s: float) -> tuple[int, Any]:
        timeout = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with self._session.request(method, self._url + path, json=body, timeout=timeout) as response:
                text = await response.text()
                return response.status, json.loads(text) if text else {}
        except TimeoutError as error:
            raise EngineError(f"{self.name} did not answer {method} {path} within {limit_s:g} s") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise EngineError(f"{self.name} cannot be reached for {method} {path}: {error}") from error


def _reason(answer: Any) -> str:
    """The message inside vLLM's error answer, without its advice to read a stack trace."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    text = str(error.get("message", error) if isinstance(error, dict) else error)
    return text.removeprefix("Call to collective_rpc method failed: ").removesuffix(
        ", please check the stack trace above for the root cause"
    )
