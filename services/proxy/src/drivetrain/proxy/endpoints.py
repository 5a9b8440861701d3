"""The proxy's HTTP endpoints: every dialect leads to the gateway of the policy that `model` names."""

import time
from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from drivetrain.proxy import feedback
from drivetrain.proxy.dialects import answers, anthropic, models
from drivetrain.proxy.dialects.base import Dialect, Head
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.http import EventStream, body_of, json_response, while_connected
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.recorder import Recorder
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask


class Endpoints:
    """What answers each path. `policies` are those served, by name; `limit` bounds bodies, in bytes."""

    def __init__(
        self,
        policies: Mapping[str, Gateway],
        identifier: Identifier,
        sessions: Sessions,
        recorder: Recorder,
        *,
        limit: int,
    ) -> None:
        self._policies, self._identifier = policies, identifier
        self._sessions, self._recorder = sessions, recorder
        self._limit = limit
        self._since = int(time.time())

    async def reply(self, dialect: Dialect, request: Request) -> Response:
        """One answer in a dialect, streamed if the request says so.

        Raises:
            Refused: the request cannot be honoured, or no replica answers.
        """
        caller = self._identifier.caller(request.headers, request.path_params.get("session"), time.time())
        ask = dialect.read(await body_of(request, self._limit))
        gateway = self._gateway(ask)
        replies = [gateway.reply(caller, sibling) for sibling in siblings(ask)]
        created = int(time.time())
        opened = await while_connected(request.receive, answers.opened(replies))
        head = Head(ask=ask, created=created, opened=opened)
        parts = answers.merged(replies)
        if ask.stream:
            return EventStream(answers.stream(parts, dialect.writer(head)))
        wholes = await while_connected(request.receive, answers.whole(parts, len(replies)))
        return json_response(dialect.document(head, wholes))

    async def count_tokens(self, request: Request) -> Response:
        """`POST /v1/messages/count_tokens`."""
        self._identifier.caller(request.headers, request.path_params.get("session"), time.time())
        ask = anthropic.read_count(await body_of(request, self._limit))
        counting = self._gateway(ask).count(ask)
        return json_response({"input_tokens": await while_connected(request.receive, counting)})

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`, in the shape of the client that asks."""
        policies = sorted(self._policies)
        shaped = models.anthropic_list if "anthropic-version" in request.headers else models.openai_list
        return json_response(shaped(policies, self._since))

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/{model}`, likewise."""
        name = request.path_params["model"]
        self._known(name)
        shaped = models.anthropic_model if "anthropic-version" in request.headers else models.openai_model
        return json_response(shaped(name, self._since))

    async def feedback(self, request: Request) -> Response:
        """`POST /v1/feedback`."""
        now = time.time()
        caller = self._identifier.caller(request.headers, request.path_params.get("session"), now)
        given = feedback.read(await body_of(request, self._limit))
        if given.turn_id:
            known = await self._sessions.turn(given.turn_id)
        else:
            session = self._identifier.session(caller.tenant, given.session) if given.session else caller.session
            if session is None:
                raise Refused(400, "say which reply is meant: response, turn or session", param="response")
            known = await self._sessions.last(session)
        if known is None or known.tenant != caller.tenant or (caller.rollout and known.session != caller.session):
            raise Refused(404, "no such reply is known here", param="response", code="unknown_reply")
        event = feedback.signal(given, known, now)
        if not self._recorder.record(event):
            raise Refused(503, "the feedback could not be stored: try again later", code="not_stored")
        return json_response({"id": event.id, "object": "feedback", "turn": known.turn})

    def _gateway(self, ask: Ask) -> Gateway:
        self._known(ask.model)
        return self._policies[ask.model]

    def _known(self, model: str) -> None:
        if model not in self._policies:
            message = f"there is no model {model!r} here; the models are: {', '.join(sorted(self._policies))}"
            raise Refused(404, message, param="model", code="model_not_found")


def siblings(ask: Ask) -> list[Ask]:
    """The asks for each of the replies that are wanted. With a seed each has its own."""
    if ask.replies == 1:
        return [ask]
    return [_sibling(ask, number) for number in range(ask.replies)]


def _sibling(ask: Ask, number: int) -> Ask:
    seed = ask.sampling.seed
    # Kept inside 64 bits, which is what engines take.
    spaced = None if seed is None else (seed + number + 2**63) % 2**64 - 2**63
    return msgspec.structs.replace(ask, sibling=number, sampling=msgspec.structs.replace(ask.sampling, seed=spaced))
