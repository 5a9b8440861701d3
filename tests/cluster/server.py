"""The API server, over HTTP: as much of Kubernetes as sandboxes use, and strict about it."""

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from aiohttp import WSMsgType, web

from tests.cluster import schemas
from tests.cluster.controllers import Controllers, Runtime, Script
from tests.cluster.store import ApiError, Object, Store, selected

KINDS = {
    "jobs": ("/apis/batch/v1", "batch", "JobList"),
    "pods": ("/api/v1", "", "PodList"),
    "secrets": ("/api/v1", "", "SecretList"),
    "events": ("/api/v1", "", "EventList"),
    "resourcequotas": ("/api/v1", "", "ResourceQuotaList"),
}
Rule = tuple[str, str, str]
"""API group, resource, verb."""


@dataclass
class Cluster:
    """A running server. `rules`: what callers may do, None: everything. `faults` are answered first, one for each
    request that they fit."""

    store: Store
    controllers: Controllers
    runtime: Runtime
    url: str = ""
    rules: set[Rule] | None = None
    faults: deque[tuple[Callable[[web.Request], bool], ApiError]] = field(default_factory=deque)
    calls: Counter[str] = field(default_factory=Counter)
    namespaces: dict[str, Object] = field(default_factory=lambda: {"rollouts": {"metadata": {"name": "rollouts"}}})
    runtime_classes: set[str] = field(default_factory=set)
    watches: set[asyncio.Event] = field(default_factory=set)

    @property
    def script(self) -> Script:
        return self.controllers.script

    def cut_watches(self) -> None:
        """Every open watch ends, as when the API server is replaced."""
        for watch in self.watches:
            watch.set()

    def left(self) -> dict[str, int]:
        """What is there of each kind."""
        found = {kind: len(self.store.list(kind, "rollouts")) for kind in ("jobs", "pods", "secrets")}
        return {kind: count for kind, count in found.items() if count}


@asynccontextmanager
async def cluster(runtime: Runtime, kept: int = 10_000) -> AsyncIterator[Cluster]:
    """A cluster on a free port of the loopback interface."""
    store = Store(kept)
    made = Cluster(store, Controllers(store, runtime, Script()), runtime)
    runner = web.AppRunner(_app(made), shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        made.cut_watches()
        await runner.cleanup()
        await made.controllers.close()


def _app(made: Cluster) -> web.Application:
    app = web.Application(client_max_size=4 << 20)
    for kind, (prefix, _, _) in KINDS.items():
        path = f"{prefix}/namespaces/{{namespace}}/{kind}"
        app.router.add_get(path, _answer(made, kind, "list"))
        app.router.add_post(path, _answer(made, kind, "create"))
        app.router.add_get(f"{path}/{{name}}", _answer(made, kind, "get"))
        app.router.add_delete(f"{path}/{{name}}", _answer(made, kind, "delete"))
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/exec", _answer(made, "pods/exec", "get"))
    app.router.add_get("/api/v1/namespaces/{name}", _answer(made, "namespaces", "get"))
    app.router.add_get("/apis/node.k8s.io/v1/runtimeclasses/{name}", _answer(made, "runtimeclasses", "get"))
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    app.router.add_post(reviews, _answer(made, "selfsubjectaccessreviews", "create"))
    return app


def _answer(made: Cluster, kind: str, verb: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        said = "watch" if request.query.get("watch") in ("true", "True", "1") else verb
        made.calls[f"{said} {kind}"] += 1
        try:
            _fail(made, request)
            _allow(made, kind, said)
            if said == "watch":
                return await _watch(made, kind, request)
            if kind == "pods/exec":
                return await _exec(made, request)
            found = await _HANDLERS[verb](made, kind, request)
            return web.json_response(found, status=201 if verb == "create" else 200)
        except ApiError as error:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else {}
            return web.json_response(error.status(), status=error.code, headers=headers)

    return answer


def _fail(made: Cluster, request: web.Request) -> None:
    if made.faults and made.faults[0][0](request):
        raise made.faults.popleft()[1]


def _allow(made: Cluster, kind: str, verb: str) -> None:
    group = {"namespaces": "", "runtimeclasses": "node.k8s.io", "pods/exec": ""}.get(kind)
    if kind in KINDS:
        group = KINDS[kind][1]
    if made.rules is not None and group is not None and (group, kind, verb) not in made.rules:
        raise ApiError(403, "Forbidden", f'User "orchestrator" cannot {verb} resource "{kind}" in API group "{group}"')


async def _list(made: Cluster, kind: str, request: web.Request) -> Object:
    items = made.store.list(kind, request.match_info["namespace"], request.query.get("labelSelector", ""))
    name = KINDS[kind][2]
    return {"kind": name, "metadata": {"resourceVersion": str(made.store.version)}, "items": items}


async def _get(made: Cluster, kind: str, request: web.Request) -> Object:
    name = request.match_info["name"]
    if kind == "namespaces":
        if name not in made.namespaces:
            raise ApiError(404, "NotFound", f'namespaces "{name}" not found')
        return made.namespaces[name]
    if kind == "runtimeclasses":
        if name not in made.runtime_classes:
            raise ApiError(404, "NotFound", f'runtimeclasses.node.k8s.io "{name}" not found')
        return {"metadata": {"name": name}, "handler": name}
    return made.store.get(kind, request.match_info["namespace"], name)


async def _create(made: Cluster, kind: str, request: web.Request) -> Object:
    item = await request.json()
    if kind == "selfsubjectaccessreviews":
        asked = item["spec"]["resourceAttributes"]
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        allowed = made.rules is None or (asked.get("group", ""), resource, asked["verb"]) in made.rules
        return {**item, "status": {"allowed": allowed}}
    schemas.check(item)
    namespace = request.match_info["namespace"]
    if namespace not in made.namespaces:
        raise ApiError(404, "NotFound", f'namespaces "{namespace}" not found')
    item["metadata"].setdefault("namespace", namespace)
    if request.query.get("dryRun") == "All":
        return dict(item)
    stored = made.store.add(kind, item)
    if kind == "jobs":
        made.controllers.created(stored)
    return stored


async def _delete(made: Cluster, kind: str, request: web.Request) -> Object:
    item = made.store.get(kind, request.match_info["namespace"], request.match_info["name"])
    options = await request.json() if request.can_read_body else {}
    uid = (options.get("preconditions") or {}).get("uid")
    if uid and uid != item["metadata"]["uid"]:
        raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
    if kind == "pods":
        made.controllers.remove_pod(item)
    else:
        made.store.remove(kind, item)
        if options.get("propagationPolicy") != "Orphan":
            made.controllers.deleted(item)
    return {"kind": "Status", "status": "Success"}


_HANDLERS: dict[str, Callable[[Cluster, str, web.Request], Awaitable[Object]]] = {
    "list": _list,
    "get": _get,
    "create": _create,
    "delete": _delete,
}


async def _watch(made: Cluster, kind: str, request: web.Request) -> web.StreamResponse:
    version = int(request.query["resourceVersion"])
    labels, namespace = request.query.get("labelSelector", ""), request.match_info["namespace"]
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    end = asyncio.Event()
    made.watches.add(end)
    loop = asyncio.get_running_loop()
    until = loop.time() + float(request.query.get("timeoutSeconds", "300"))
    try:
        while not end.is_set() and loop.time() < until:
            waiting = asyncio.ensure_future(made.store.waiting())
            for change in made.store.since(version, kind):
                version = change.version
                meta = change.object["metadata"]
                if meta["namespace"] == namespace and selected(meta.get("labels"), labels):
                    await _send(response, {"type": change.type, "object": change.object})
            version = made.store.version if not list(made.store.since(version, kind)) else version
            ending = asyncio.ensure_future(end.wait())
            done, _ = await asyncio.wait((waiting, ending), timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            waiting.cancel()
            if not done and request.query.get("allowWatchBookmarks"):
                await _send(response, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
    except ApiError as error:
        await _send(response, {"type": "ERROR", "object": error.status()})
    except ConnectionError:
        pass
    finally:
        made.watches.discard(end)
    return response


async def _send(response: web.StreamResponse, event: Object) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


async def _exec(made: Cluster, request: web.Request) -> web.StreamResponse:
    pod = made.store.get("pods", request.match_info["namespace"], request.match_info["name"])
    if pod["status"]["phase"] != "Running":
        raise ApiError(400, "BadRequest", "container is not running")
    socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",), max_msg_size=8 << 20)
    await socket.prepare(request)
    given = asyncio.StreamReader()
    listening = asyncio.create_task(_listen(socket, given))
    wants = request.query.get("stdin") in ("true", "True")
    try:
        status = await _run(made, pod, request.query.getall("command"), given if wants else None, socket)
        await _tell(socket, 3, json.dumps(status).encode())
    except ConnectionError:
        pass
    finally:
        listening.cancel()
        await socket.close()
    return socket


async def _run(
    made: Cluster, pod: Object, argv: list[str], given: asyncio.StreamReader | None, socket: web.WebSocketResponse
) -> Object:
    try:
        code = await made.runtime.exec(pod, argv, given, partial(_tell, socket))
    except (KeyError, ProcessLookupError) as error:
        return {"status": "Failure", "message": str(error)}
    cause = {"reason": "ExitCode", "message": str(code)}
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    return failed if code else {"status": "Success"}


async def _tell(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    if not socket.closed:
        await socket.send_bytes(bytes([channel]) + data)


async def _listen(socket: web.WebSocketResponse, given: asyncio.StreamReader) -> None:
    async for message in socket:
        if message.type == WSMsgType.BINARY and message.data[0] == 0:
            given.feed_data(message.data[1:])
    given.feed_eof()
