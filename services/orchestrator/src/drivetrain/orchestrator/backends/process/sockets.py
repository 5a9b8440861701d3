"""Asking the proxy for a rollout's own unix socket, the only way out of a sandbox without a network."""

from pathlib import Path

import httpx

from drivetrain.orchestrator.backends.base import Access, BackendError

PATH = "/v1/socket"
ANSWER_S = 10.0
NOT_OFFERED = frozenset((404, 405))


async def open_socket(access: Access) -> Path | None:
    """The path of the socket; None where the proxy offers none, or offers it on another machine.

    Raises:
        BackendError: the proxy is away, or refuses.
    """
    answer = await _ask("PUT", access)
    if answer.status_code in NOT_OFFERED:
        return None
    if answer.status_code != httpx.codes.OK:
        raise BackendError(f"the proxy opened no socket: {answer.status_code} {answer.text[:200]}")
    return _if_here(Path(str(answer.json()["path"])))


async def close_socket(access: Access) -> None:
    """Close it; the proxy would do so itself when the key expires."""
    try:
        await _ask("DELETE", access)
    except BackendError:
        return


def _if_here(path: Path) -> Path | None:
    return path if path.is_socket() else None


async def _ask(method: str, access: Access) -> httpx.Response:
    headers = {"authorization": f"Bearer {access.key}"}
    secure = access.url.startswith("https:")  # reading certificates takes longer than the rest
    try:
        async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False, verify=secure) as client:
            return await client.request(method, access.url + PATH, headers=headers)
    except httpx.HTTPError as error:
        raise BackendError(f"the proxy at {access.url} cannot be reached: {error!r}") from error
