"""One model call from beginning to end: find the conversation, build the prompt, stream the reply, record the turn."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import msgspec

from drivetrain.common.events import TurnRecorded
from drivetrain.common.identity import new_id
from drivetrain.proxy.conversations import echoes
from drivetrain.proxy.conversations.conversations import Conversations
from drivetrain.proxy.conversations.echoes import Link
from drivetrain.proxy.conversations.lineage import digest_of
from drivetrain.proxy.engines.base import (
    Engine,
    EngineBroke,
    EngineBusy,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    Want,
)
from drivetrain.proxy.engines.grammar import PARAMETER, held
from drivetrain.proxy.engines.sampling import capped, engine_parameters, for_rollout
from drivetrain.proxy.engines.wire import too_long
from drivetrain.proxy.errors import ContextExceeded, Refused
from drivetrain.proxy.metrics import DRIFT, FIRST_TOKEN, IN_FLIGHT, INEXACT, OVERHEAD, TURNS
from drivetrain.proxy.prompts.prompt import Prompt
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.prompts.templates import BadConversation
from drivetrain.proxy.recording.capture import Captured
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.replies.parts import Opened, Reply, Tokens
from drivetrain.proxy.replies.reader import ReplyReader
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask, Caller, Finish


class Gateway:
    """The path of every model call of one policy. `clock` gives unix seconds."""

    def __init__(
        self,
        *,
        engine: Engine,
        rendering: Rendering,
        sessions: Sessions,
        recorder: Recorder,
        secret: bytes,
        context_tokens: Callable[[], int],
        rollout_temperature: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine, self._rendering, self._recorder = engine, rendering, recorder
        self._conversations = Conversations(sessions, recorder.record, secret)
        self._context_tokens, self._clock = context_tokens, clock
        self._rollout_temperature = rollout_temperature
        self._tasks: set[asyncio.Task[None]] = set()

    async def reply(self, caller: Caller, ask: Ask) -> Reply:
        """Stream one reply: `Opened` first, then pieces as they are sampled, calls once whole, then `Finished`.

        Before anything is yielded a request may be refused; afterwards `EngineBroke` says that the reply ends early.
        Closing the generator aborts the engine's work. Whatever was sampled is recorded in each case.

        Raises:
            Refused: the request cannot be honoured, or no replica answers.
        """
        with IN_FLIGHT.track_inprogress():
            arrived, template = self._clock(), self._rendering.template
            captured = await self._prepare(caller, ask, arrived)
            parameters = engine_parameters(captured.ask, template.stop_ids, template.marker_ids)
            OVERHEAD.observe(max(self._clock() - arrived, 0.0))
            event: TurnRecorded | None = None
            unanswered = False
            finish: Finish = "aborted"
            try:
                async with aclosing(self._sampled(captured, parameters, arrived)) as parts:
                    async for part in parts:
                        yield part
                finish = captured.finish
                event = await self._record(captured, finish)
            except (EngineUnavailable, EngineRefused, EngineBusy) as error:
                unanswered = True
                raise _refusal(error) from error
            except EngineBroke:
                finish = "error"
                raise
            finally:
                if event is None and not unanswered:
                    # beside the request, which may be ending because its caller left
                    self._beside(self._end(captured, finish))
            # a caller who leaves now has all of the reply and may go on from it
            await asyncio.shield(self._beside(self._remember(captured, event)))
            yield captured.finished

    async def count(self, ask: Ask) -> int:
        """How many tokens the prompt of this ask has, rendered anew.

        Raises:
            Refused: the chat template cannot write it.
        """
        return len((await self._prompt(ask, None)).ids)

    async def _prepare(self, caller: Caller, ask: Ask, now: float) -> Captured:
        if caller.role == "rollout":
            sampling = for_rollout(ask.sampling, self._rollout_temperature)
            ask = msgspec.structs.replace(ask, sampling=sampling)
        if isinstance(ask.prompt, list):
            text = self._rendering.text(ask.prompt)
            ask = msgspec.structs.replace(ask, messages=[{"role": "user", "content": text}])
        where = await self._conversations.place(caller, ask, now)
        prompt, limit = await self._prompt(ask, where.link), self._context_tokens()
        if len(prompt.ids) >= limit and prompt.cause == "volatile_kept":
            prompt = await self._prompt(ask, where.link, keep=False)
        if len(prompt.ids) >= limit:
            raise ContextExceeded(len(prompt.ids), limit)
        template = self._rendering.template
        if ask.must_call or PARAMETER in ask.sampling.other:
            ask = held(ask, form=template.call_form, reasons_first=template.starts_in_reasoning(prompt.ids))
        DRIFT.labels(prompt.drift, prompt.cause).inc()
        turn = new_id()
        return Captured(
            turn=turn,
            caller=caller,
            ask=msgspec.structs.replace(ask, sampling=capped(ask.sampling, len(prompt.ids), limit)),
            where=where,
            prompt=prompt,
            reader=ReplyReader(template, turn, prompt.ids, ask.tools, ask.stop, chat=ask.prompt is None),
            started_at=now,
        )

    async def _prompt(self, ask: Ask, link: Link | None, *, keep: bool = True) -> Prompt:
        if ask.tools and not self._rendering.template.renders_tools:
            raise Refused(400, "this model's chat template has no place for tools", param="tools")
        messages, past = echoes.continued(ask.messages, link, keep=keep)
        same_tools = past is not None and past.known.tools == digest_of(ask.tools)
        try:
            if ask.prompt is not None:
                return self._rendering.raw(ask.prompt)
            prompt = await self._rendering.prompt(messages, ask.tools, past, same_tools=same_tools)
        except BadConversation as error:
            raise Refused(400, str(error), param="messages" if ask.prompt is None else "prompt") from error
        if link is None or link.unchanged:
            return prompt
        if past is not None and not prompt.shared:
            return await self._prompt(ask, link, keep=False)
        if prompt.shared:
            return msgspec.structs.replace(prompt, drift="realigned", cause="volatile_kept")
        # A harness that changed the history it repeats gets what it sent: the recorded tokens would say something else.
        return msgspec.structs.replace(prompt, drift="forked", cause="history_edited")

    async def _sampled(self, captured: Captured, parameters: dict[str, Any], arrived: float) -> Reply:
        prompt, reader, caller = captured.prompt.ids, captured.reader, captured.caller
        want = Want(session=captured.speaker.session, lane=caller.tenant, rollout=caller.role == "rollout")
        noting: asyncio.Task[None] | None = None
        try:
            async with self._engine.generate(captured.turn, want, prompt, parameters, captured.prompt.images) as stream:
                FIRST_TOKEN.observe(max(self._clock() - arrived, 0.0))
                captured.replica, shown = stream.replica, stream.prompt_ids or prompt
                captured.prompt_tokens = len(shown)
                if captured.where.link:
                    noting = self._beside(self._note(captured, arrived))
                yield Opened(captured.turn, captured.speaker.session, shown)
                async for sampled in stream:
                    captured.take(sampled)
                    if captured.ask.logprobs or captured.ask.token_ids:
                        yield Tokens.of(sampled, captured.ask.top_logprobs, lambda token: self._rendering.text([token]))
                    for piece in reader.feed(sampled.ids):
                        yield piece
        finally:
            if noting:
                await asyncio.wait((noting,))
        if captured.engine_finish is None:
            raise EngineBroke("the engine's reply has no end")
        for piece in reader.finish():
            yield piece

    async def _note(self, captured: Captured, now: float) -> None:
        """Beside the first tokens, which do not wait for it."""
        captured.where = await self._conversations.note(captured.caller, captured.ask, captured.where, now)

    async def settled(self) -> None:
        """Wait for what goes on beside requests that have ended."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _end(self, captured: Captured, finish: Finish) -> None:
        """Record and remember a turn whose reply nobody waits for any more."""
        await self._remember(captured, await self._record(captured, finish))

    async def _record(self, captured: Captured, finish: Finish) -> TurnRecorded:
        """Write the turn to the spool."""
        event = captured.recorded(finish, self._clock())
        if captured.caller.consent != "off":
            event = await self._recorder.record_turn(event)
            TURNS.labels(finish).inc()
            INEXACT.inc(0 if event.exact else 1)
        return event

    async def _remember(self, captured: Captured, event: TurnRecorded) -> None:
        """Let later requests continue from this turn, which lasts."""
        await self._recorder.lasting()
        if captured.caller.consent != "off":
            await self._conversations.remember(event, self._clock(), done=captured.caller.done)

    def _beside(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Work that the end of the request does not end."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _refusal(error: EngineError) -> Refused:
    if isinstance(error, EngineRefused) and (counts := too_long(str(error))):
        return ContextExceeded(*counts)
    if isinstance(error, EngineRefused):
        return Refused(400, str(error), code="engine_refused")
    if isinstance(error, EngineBusy):
        return Refused(429, f"{error}: try again", code="engine_busy", retry_after=error.retry_after)
    return Refused(503, f"{error}: try again shortly", code="engine_unavailable", retry_after=1)
