"""The proxy's HTTP endpoints: every dialect leads to the gateway of the policy that `model` names."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from drivetrain.common.identity import new_id
from drivetrain.proxy.access.door import Door
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.api import feedback
from drivetrain.proxy.api.continuing import may_continue, unknown, whole
from drivetrain.proxy.api.feedback import Feedback
from drivetrain.proxy.api.http import EventStream, json_response, while_connected
from drivetrain.proxy.dialects import answers, anthropic, gemini, models
from drivetrain.proxy.dialects.base import Dialect, Head
from drivetrain.proxy.dialects.gemini.array import as_array
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask, KnownTurn


class Endpoints:
    """What answers each path. `policies` are those served, by name."""

    def __init__(
        self,
        policies: Mapping[str, Gateway],
        door: Door,
        identifier: Identifier,
        sessions: Sessions,
        recorder: Recorder,
    ) -> None:
        self._policies, self._door, self._identifier = policies, door, identifier
        self._sessions, self._recorder = sessions, recorder
        self._since = int(time.time())

    async def reply(self, dialect: Dialect, request: Request) -> Response:
        """One answer in a dialect, streamed if the request says so.

        Raises:
            Refused: the request cannot be honoured, or no replica answers.
        """
        principal, body = await self._door.enter(request)
        ask = await self._whole(addressed(dialect.read(body), request), principal)
        gateway = self._gateway(ask)
        caller = self._identifier.caller(principal, request.headers, request.path_params.get("session"), ask)
        replies = [gateway.reply(caller, sibling) for sibling in siblings(ask)]
        created = int(time.time())
        async with AsyncExitStack() as stack:
            for reply in replies:
                stack.push_async_callback(reply.aclose)
            opened = await while_connected(request.receive, answers.opened(replies))
            head = Head(ask=ask, created=created, opened=opened)
            parts = self._door.metered(principal, answers.merged(replies), len(opened[0].prompt_ids))
            if ask.stream:
                return _streamed(request, answers.stream(parts, dialect.writer(head)), stack.pop_all().aclose)
            wholes = await while_connected(request.receive, answers.whole(parts, len(replies)))
        return json_response(dialect.document(head, wholes))

    async def count_tokens(self, request: Request) -> Response:
        """`POST /v1/messages/count_tokens`."""
        _, body = await self._door.enter(request)
        ask = self._door.within(anthropic.read_count(body))
        counting = self._gateway(ask).count(ask)
        return json_response({"input_tokens": await while_connected(request.receive, counting)})

    async def gemini_count(self, request: Request) -> Response:
        """`POST /v1beta/models/{model}:countTokens`."""
        _, body = await self._door.enter(request)
        ask = self._door.within(addressed(gemini.read_count(body), request))
        counting = self._gateway(ask).count(ask)
        return json_response({"totalTokens": await while_connected(request.receive, counting)})

    async def models(self, request: Request) -> Response:
        """`GET /v1/models` and `/v1beta/models`, in the shape of the client that asks."""
        policies = sorted(filter(self._door.principal(request).may_use, self._policies))
        if models.is_gemini(request.url.path, request.headers):
            return json_response(models.gemini_list(policies))
        shaped = models.anthropic_list if "anthropic-version" in request.headers else models.openai_list
        return json_response(shaped(policies, self._since))

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/{model}`, likewise."""
        name = request.path_params["model"]
        self._door.principal(request)
        self._known(name)
        if models.is_gemini(request.url.path, request.headers):
            return json_response(models.gemini_model(name))
        shaped = models.anthropic_model if "anthropic-version" in request.headers else models.openai_model
        return json_response(shaped(name, self._since))

    async def feedback(self, request: Request) -> Response:
        """`POST /v1/feedback`."""
        now = time.time()
        principal, body = await self._door.enter(request)
        given = feedback.read(body)
        known = await self._meant(given, principal, request)
        if known is None or not self._may_judge(principal, known):
            raise Refused(404, "no such reply is known here", param="response", code="unknown_reply")
        event = feedback.signal(given, known, now)
        if not await self._recorder.record(event):
            raise Refused(503, "the feedback could not be stored: try again later", code="not_stored")
        await self._recorder.lasting()
        return json_response({"id": event.id, "object": "feedback", "turn": known.turn})

    async def _whole(self, ask: Ask, principal: Principal) -> Ask:
        """The ask with the conversation that it names, within bounds.

        Raises:
            Refused: there is no such reply, or it is another one's.
        """
        if not ask.continues:
            return self._door.within(ask)
        known = await self._sessions.turn(ask.continues)
        own = self._identifier.named(principal, {}, None, ask.model, None) if principal.rollout else None
        past = None
        if known and may_continue(known, tenant=principal.tenant, policy=ask.model, session=own):
            past = await self._sessions.past(known)
        if past is None:
            raise unknown(ask)
        return self._door.within(whole(ask, past))

    async def _meant(self, given: Feedback, principal: Principal, request: Request) -> KnownTurn | None:
        """The reply that feedback is about: by its id, or the last one of a session of any policy."""
        if given.turn_id:
            return await self._sessions.turn(given.turn_id)
        path = request.path_params.get("session")
        for policy in filter(principal.may_use, sorted(self._policies)):
            session = self._identifier.named(principal, request.headers, path, policy, given.session)
            if session is None:
                raise Refused(400, "say which reply is meant: response, turn or session", param="response")
            if known := await self._sessions.last(session):
                return known
        return None

    def _may_judge(self, principal: Principal, known: KnownTurn) -> bool:
        """Whether a key may say something of a reply: of its own rollout or tenant, an admin of all."""
        if principal.rollout:
            return known.session == self._identifier.named(principal, {}, None, known.policy, None)
        return principal.role == "admin" or known.tenant == principal.tenant

    def _gateway(self, ask: Ask) -> Gateway:
        self._known(ask.model)
        return self._policies[ask.model]

    def _known(self, model: str) -> None:
        if model not in self._policies:
            message = f"there is no model {quoted(model)} here; the models are: {', '.join(sorted(self._policies))}"
            raise Refused(404, message, param="model", code="model_not_found")


def addressed(ask: Ask, request: Request) -> Ask:
    """The ask with what the request's path says: the model, and whether the answer is streamed."""
    if (model := request.path_params.get("model")) is None:
        return ask
    streamed = request.url.path.endswith(gemini.STREAM_PATH.rpartition(":")[2])
    return msgspec.structs.replace(ask, model=model, stream=streamed)


def _streamed(request: Request, events: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> Response:
    """Server-sent events, or an array where a request that names its model in the path asks for no events."""
    if "model" in request.path_params and request.query_params.get("alt") != "sse":
        return EventStream(as_array(events), close, media_type="application/json")
    return EventStream(events, close)


def siblings(ask: Ask) -> list[Ask]:
    """The asks for each of the replies that are wanted. With a seed each has its own."""
    if ask.replies == 1:
        return [ask]
    family = new_id()
    return [_sibling(ask, family, number) for number in range(ask.replies)]


def _sibling(ask: Ask, family: str, number: int) -> Ask:
    seed = ask.sampling.seed
    # Kept inside 64 bits, which is what engines take.
    spaced = None if seed is None else (seed + number + 2**63) % 2**64 - 2**63
    return msgspec.structs.replace(ask, family=family, sampling=msgspec.structs.replace(ask.sampling, seed=spaced))
