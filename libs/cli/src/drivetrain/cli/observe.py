"""What a running stack says of itself: each process's health, the version served, the streams and their consumers."""

import asyncio
from typing import Any

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from drivetrain.cli.stack.runfile import Run


class ServiceStatus(msgspec.Struct, frozen=True):
    """A service: does it live, is it ready, what does it wait for, and what does it do without."""

    live: bool
    ready: bool
    waiting_for: list[str] = []
    without: list[str] = []


class StreamStatus(msgspec.Struct, frozen=True):
    """A stream's size."""

    messages: int
    bytes: int


class ConsumerStatus(msgspec.Struct, frozen=True):
    """A consumer: messages it has not been given yet, and those given but not acknowledged."""

    stream: str
    pending: int
    unacknowledged: int


class DriftStatus(msgspec.Struct, frozen=True):
    """How many prompts continued recorded tokens in this way, for this reason."""

    drift: str
    cause: str
    prompts: int


class StackStatus(msgspec.Struct, frozen=True):
    """Everything `drivetrain status` shows. `versions` is what each replica says it serves, None if it says nothing;
    `drift` is what the proxy counted since it started, the most frequent first."""

    run: Run
    services: dict[str, ServiceStatus]
    versions: dict[str, str | None]
    streams: dict[str, StreamStatus]
    consumers: dict[str, ConsumerStatus]
    drift: list[DriftStatus] = []


async def observe(run: Run) -> StackStatus:
    """Ask everything at once; what does not answer within two seconds counts as not there."""
    async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
        names = list(run.urls.admin)
        services, version, streams, metrics = await asyncio.gather(
            asyncio.gather(*(_service(client, run.urls.admin[name]) for name in names)),
            _version(client, run.urls.vllm),
            _json(client, f"{run.urls.nats_monitor}/jsz?streams=true&consumers=true"),
            _metrics(client, run.urls.admin.get("proxy")),
        )
    details = _stream_details(streams)
    return StackStatus(
        run=run,
        services=dict(zip(names, services, strict=True)),
        versions={run.urls.vllm: version},
        streams={d["name"]: StreamStatus(d["state"]["messages"], d["state"]["bytes"]) for d in details},
        consumers=dict(_consumers(details)),
        drift=drift_of(metrics),
    )


async def _service(client: httpx.AsyncClient, url: str) -> ServiceStatus:
    live, ready = await asyncio.gather(_json(client, f"{url}/livez"), _json(client, f"{url}/readyz"))
    waiting, without = (ready.get(name, []) if ready else [] for name in ("waiting_for", "without"))
    return ServiceStatus(live is not None, bool(ready) and not waiting, waiting, without)


async def _version(client: httpx.AsyncClient, url: str) -> str | None:
    info = await _json(client, f"{url}/weight_info")
    return None if info is None else str(info.get("weight_version"))


async def _json(client: httpx.AsyncClient, url: str) -> dict[str, Any] | None:
    """The JSON object behind a URL, whatever the status; None when nothing (readable) answers."""
    try:
        body = (await client.get(url)).json()
    except (httpx.HTTPError, ValueError):
        return None
    return body if isinstance(body, dict) else None


async def _metrics(client: httpx.AsyncClient, url: str | None) -> str:
    """A service's metrics in Prometheus' text form; empty when it does not answer."""
    if url is None:
        return ""
    try:
        response = await client.get(f"{url}/metrics")
    except httpx.HTTPError:
        return ""
    return response.text if response.status_code == 200 else ""


def drift_of(metrics: str) -> list[DriftStatus]:
    """The proxy's prompts by how they continue recorded tokens and why, the most frequent first."""
    families = (f for f in text_string_to_metric_families(metrics) if f.name == "drivetrain_proxy_drift")
    samples = [s for family in families for s in family.samples if s.name.endswith("_total")]
    found = [DriftStatus(s.labels["drift"], s.labels["cause"], int(s.value)) for s in samples if s.value]
    return sorted(found, key=lambda one: -one.prompts)


def _stream_details(jsz: dict[str, Any] | None) -> list[dict[str, Any]]:
    accounts = (jsz or {}).get("account_details") or []
    details = [detail for account in accounts for detail in account.get("stream_detail") or []]
    return sorted(details, key=lambda detail: str(detail["name"]))


def _consumers(details: list[dict[str, Any]]) -> list[tuple[str, ConsumerStatus]]:
    return [
        (consumer["name"], ConsumerStatus(detail["name"], consumer["num_pending"], consumer["num_ack_pending"]))
        for detail in details
        for consumer in detail.get("consumer_detail") or []
    ]
