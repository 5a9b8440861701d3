"""What tests of sessions over HTTP say to a proxy, and with which keys."""

from typing import Any

import httpx

from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, sign_rollout_key

SECRET = b"a secret of the tests"
QUESTION = {"role": "user", "content": "The capital of France?"}
REPLY = {"role": "assistant", "content": "Paris."}
THANKS = {"role": "user", "content": "Thanks"}


async def chat(proxy: Any, messages: list[Any], path: str = "", status: int = 200, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "default", "messages": messages, "max_tokens": 50, "temperature": 0.5}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{proxy.url}{path}/v1/chat/completions", json=body, headers=sent, timeout=20)
    assert answer.status_code == status, answer.text
    return answer.json()


def rollout_key(policy: str = "default", expires_at: float = 2e10, secret: bytes = SECRET) -> str:
    rollout = RolloutRef(run="run", group="group", rollout="rollout", group_size=2)
    return sign_rollout_key(secret, RolloutKey(rollout=rollout, policy=policy, expires_at=expires_at))
