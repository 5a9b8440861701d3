"""What a harness is told of the proxy: of the stack that runs here, or of another one."""

from pathlib import Path

import httpx

from drivetrain.cli.errors import CliError
from drivetrain.cli.stack import running
from drivetrain.common.harnesses.filling import Values

LOCAL_KEY = "local"
"""A stack on this machine takes any key."""
CONTEXT_TOKENS = 32_768
"""What is said of the context window of a model that is not asked."""


def resolve(proxy: str | None, key: str | None, model: str | None, context: int | None, reply: int | None) -> Values:
    """The values of the placeholders, the running stack's where a thing is not given.

    Raises:
        CliError: no stack runs here, and the proxy, key or model is missing.
    """
    if proxy is None:
        run = running()
        proxy, key, model = run.urls.proxy, key or LOCAL_KEY, model or run.policy
        context = context or _served_context(run.urls.vllm)
    if key is None or model is None:
        raise CliError(f"{'--key' if key is None else '--model'} is missing: --proxy names another stack", status=2)
    window = context or CONTEXT_TOKENS
    return {
        "proxy_url": proxy.rstrip("/").removesuffix("/v1"),
        "key": key,
        "model": model,
        "context": window,
        "reply": reply or min(4096, window // 4),
        "home": str(Path.home()),
    }


def _served_context(vllm: str) -> int | None:
    """The context window of the engine, or None if it does not say."""
    try:
        (model, *_) = httpx.get(f"{vllm}/v1/models", timeout=5).raise_for_status().json()["data"]
    except (httpx.HTTPError, ValueError, KeyError):
        return None
    length = model.get("max_model_len")
    return int(length) if length else None
