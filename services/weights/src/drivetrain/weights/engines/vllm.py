"""A vLLM replica (0.32 and newer, development endpoints on, weight transfer backend `drivetrain`, and the plugin's
worker extension).

`pause?mode=keep&clear_cache=true` preempts the running requests and empties the prefix cache before the weights
change, so the prompt and the tokens so far are computed again under the new weights and no stale key or value is used.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from drivetrain.weights.engines.base import EngineError, Refused, Serving, Staged, Weights
from drivetrain.weights.engines.words import adapters_in_use, read, reason, update_info

ADAPTERS = "--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
FIRST_LOOK_S, LONGEST_LOOK_S = 0.02, 0.5
"""Between two looks at a checkpoint that is being staged: little at first, since an adapter is ready at once."""


class VllmEngine:
    """See `Engine` for the contract. `call_s` bounds a control call or a probe, `load_s` the loading itself."""

    def __init__(self, url: str, name: str, call_s: float, load_s: float) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self._call_s = call_s
        self._load_s = load_s
        # vLLM closes the connection after each error answer: a kept one could lose the /resume that must follow
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))

    async def serving(self) -> Serving:
        label = (await self._call("GET", "/weight_info"))["weight_version"]
        paused = (await self._call("GET", "/is_paused"))["is_paused"]
        models = (await self._call("GET", "/v1/models")).get("data", [])
        adapters = frozenset(model["id"] for model in models if "@" in model["id"])
        return Serving(int(label) if str(label).isdecimal() else None, bool(paused), adapters)

    async def label(self, version: int) -> None:
        await self._call("POST", "/update_weight_version", {"new_version": str(version)})

    async def stage(self, weights: Weights) -> Staged:
        until = time.monotonic() + self._load_s
        states, wait_s = await self._workers("drivetrain_stage", update_info=update_info(weights)), FIRST_LOOK_S
        while any(state["state"] == "staging" for state in states):
            if time.monotonic() > until:
                raise EngineError(f"{self.name} did not stage version {weights.version} within {self._load_s:g} s")
            await asyncio.sleep(wait_s)
            states, wait_s = await self._workers("drivetrain_staged"), min(2 * wait_s, LONGEST_LOOK_S)
        return self._staged(weights, states)

    async def load(self, weights: Weights) -> None:
        staged = await self.stage(weights)
        work = self._add(weights, staged) if weights.name else self._swap(weights)
        swap = asyncio.ensure_future(work)
        try:
            await asyncio.shield(swap)
        except asyncio.CancelledError:
            # A load that has begun is ended properly: a paused replica would keep every request waiting
            await asyncio.wait([swap], timeout=self._load_s)
            raise

    async def unload(self, adapter: str) -> None:
        status, answer = await self._request("POST", "/v1/unload_lora_adapter", {"lora_name": adapter}, self._call_s)
        if status not in (200, 404):
            raise EngineError(f"{self.name} did not unload {adapter}: {reason(answer)}")

    async def busy(self) -> frozenset[str]:
        return adapters_in_use(await self._text("/metrics"))

    async def logprobs(self, token_ids: Sequence[int], adapter: str | None = None) -> list[float]:
        sampling = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        body = {"token_ids": list(token_ids), "sampling_params": sampling}
        if adapter is not None:
            body["model"] = adapter
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
        for worker in await self._workers("drivetrain_loaded"):
            self._same_bytes(weights, worker["digests"])

    async def _begin(self) -> None:
        """Open an update; one that an earlier life left open is closed first (closing changes nothing)."""
        try:
            await self._call("POST", "/start_weight_update")
        except EngineError:
            await self._call("POST", "/finish_weight_update", {})
            await self._call("POST", "/start_weight_update")

    async def _update(self, weights: Weights) -> None:
        body = {"update_info": update_info(weights)}
        await self._or_refused(weights, *await self._request("POST", "/update_weights", body, self._load_s))

    async def _add(self, weights: Weights, staged: Staged) -> None:
        body = {"lora_name": weights.name, "lora_path": staged.folder}
        status, answer = await self._request("POST", "/v1/load_lora_adapter", body, self._load_s)
        if status == 400 and "already been loaded" in reason(answer):
            return  # a name stands for one version's bytes for ever
        if status == 404 and "error" not in (answer if isinstance(answer, dict) else {}):
            raise EngineError(f"{self.name} takes no adapters: start it with {ADAPTERS}")
        await self._or_refused(weights, status, answer)

    async def _or_refused(self, weights: Weights, status: int, answer: Any) -> None:
        if status != 200:
            # An engine that died over something else answers 503 here: then the version is not at fault
            await self._call("GET", "/health")
            raise Refused(f"{self.name} refused version {weights.version}: {reason(answer)}")

    def _staged(self, weights: Weights, states: Sequence[dict[str, Any]]) -> Staged:
        for state in states:
            if state["state"] == "refused":
                raise Refused(f"{self.name} refused version {weights.version}: {state['reason']}")
            if state["state"] != "ready":
                raise EngineError(f"{self.name} could not stage version {weights.version}: {state.get('reason')}")
            self._same_bytes(weights, state["digests"])
        return Staged(states[0]["folder"], sum(int(state["fetched_bytes"]) for state in states))

    def _same_bytes(self, weights: Weights, digests: dict[str, str]) -> None:
        """What the replica read must be what the manifest says, as the replica itself computed it."""
        if weights.files and digests != {entry.name: entry.sha256 for entry in weights.files}:
            raise Refused(f"{self.name} has other bytes for version {weights.version} than its manifest says")

    async def _finish(self, version: int) -> None:
        """Close the update and label it. The weights are the new ones already, so the label must follow."""
        try:
            await self._call("POST", "/finish_weight_update", {"weight_version": str(version)})
        except EngineError:
            await self.label(version)

    async def _workers(self, method: str, **named: Any) -> list[dict[str, Any]]:
        """What each of vLLM's workers answers to a call of the plugin's."""
        answer = await self._call("POST", "/collective_rpc", {"method": method, "kwargs": named})
        found: list[dict[str, Any]] = answer["results"]
        return found

    async def _text(self, path: str) -> str:
        timeout = aiohttp.ClientTimeout(total=self._call_s)
        try:
            async with self._session.get(self.url + path, timeout=timeout) as response:
                return await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{self.name} did not answer GET {path}: {error!r}") from error

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = await self._request(method, path, body, self._call_s)
        if status != 200:
            raise EngineError(f"{self.name} answered {method} {path} with {status}: {reason(answer)}")
        if not isinstance(answer, dict):
            raise EngineError(f"{self.name} answered {method} {path} with something else than a JSON object")
        return answer

    async def _request(self, method: str, path: str, body: dict[str, Any] | None, limit_s: float) -> tuple[int, Any]:
        timeout = aiohttp.ClientTimeout(total=limit_s)
        try:
            async with self._session.request(method, self.url + path, json=body, timeout=timeout) as response:
                return response.status, read(await response.text())
        except TimeoutError as error:
            raise EngineError(f"{self.name} did not answer {method} {path} within {limit_s:g} s") from error
        except aiohttp.ClientError as error:
            raise EngineError(f"{self.name} cannot be reached for {method} {path}: {error}") from error
