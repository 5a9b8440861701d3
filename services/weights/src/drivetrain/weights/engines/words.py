"""What is said to vLLM and what it answers, in values of our own. Pure."""

import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from drivetrain.weights.engines.base import Weights


def read(text: str) -> Any:
    """An answer's JSON; its text where vLLM answers in words."""
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text


def update_info(weights: Weights) -> dict[str, Any]:
    """A checkpoint in the plugin's words."""
    if weights.archive:
        where = {"archive": weights.archive, "policy": weights.policy, "version": weights.version}
        return {**where, "digest": weights.digest, "kind": weights.kind}
    files = {entry.name: {"sha256": entry.sha256, "size": entry.size} for entry in weights.files}
    return {"folder": str(weights.folder), "files": files, "kind": weights.kind}


def adapters_in_use(metrics: str) -> frozenset[str]:
    """The adapters of requests that run or wait, as vLLM's metrics tell: the newest of the label sets holds."""
    families = {family.name: family.samples for family in text_string_to_metric_families(metrics)}
    counted = [*families.get("vllm:num_requests_running", ()), *families.get("vllm:num_requests_waiting", ())]
    if not any(sample.value for sample in counted):
        return frozenset()
    newest = max(families.get("vllm:lora_requests_info", ()), key=lambda sample: sample.value, default=None)
    names = [newest.labels[f"{kind}_lora_adapters"] for kind in ("running", "waiting")] if newest else []
    return frozenset(name for joined in names for name in joined.split(",") if name)


def reason(answer: Any) -> str:
    """The message inside vLLM's error answer, without its advice to read a stack trace."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    text = str(error.get("message", error) if isinstance(error, dict) else error)
    return text.removeprefix("Call to collective_rpc method failed: ").removesuffix(
        ", please check the stack trace above for the root cause"
    )
