"""Where each request stands among the conversations that are known, and what it tells of the turns before it."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from drivetrain.common.events import Event, TurnRecorded
from drivetrain.common.identity import new_id, session_id
from drivetrain.proxy.conversations import echoes
from drivetrain.proxy.conversations.echoes import RETRY_WITHIN_S, Link, Where
from drivetrain.proxy.conversations.lineage import candidates, rolling
from drivetrain.proxy.identify.speakers import thread_and_kind
from drivetrain.proxy.recording.capture import followed, known_turn
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask, Caller, KnownTurn, Speaker, after


class Conversations:
    """The conversations of one policy. `record` takes events into the spool."""

    def __init__(self, sessions: Sessions, record: Callable[[Event], Awaitable[bool]], secret: bytes) -> None:
        self._sessions, self._record, self._secret = sessions, record, secret

    async def place(self, caller: Caller, ask: Ask, now: float) -> Where:
        """Find the turn that a request continues, and with it who speaks."""
        digests = rolling(scope_of(caller, ask), ask.messages)
        past = await self._sessions.find(candidates(digests, ask.messages))
        link = echoes.link(past, digests, ask.messages) if past else None
        speaker = await self._speaker(caller, ask, digests, link, now)
        return Where(speaker=speaker, digests=digests, link=link)

    async def note(self, caller: Caller, ask: Ask, where: Where, now: float) -> Where:
        """A request that continues a turn, once it is being answered, brings that turn's next state and shows that the
        other attempts of the turn's own request came to nothing. That is said once however often it is repeated, also
        in other words after a reply that was cut. Where the request stands, in the light of that."""
        if where.link is None or where.speaker.kind == "side" or caller.consent == "off":
            return where
        known, messages = where.link.past.known, echoes.next_state(ask.messages, where.link)
        if not messages:
            return where
        new = self._sessions.followed(known, rolling("", messages)[-1])
        others = await self._sessions.attempts(known.asked, after(known.turn))
        again = echoes.cut_before(known, others, now)
        if again and echoes.replaced(again, await self._sessions.attempts(again.asked)):
            again = None
        if new and again is None:
            consents = caller.consent == "train"
            await self._record(followed(known, messages, kind="messages", trainable=consents, now=now))
            await self._supersede(echoes.superseded(known, others), now)
        return msgspec.structs.replace(where, again=again.asked) if again else where

    async def remember(self, event: TurnRecorded, now: float, *, done: bool) -> None:
        """Let later requests continue from this turn; with `done` its session is over."""
        known = known_turn(event)
        if done and not known.cut:
            await self._end(known, now)
        await self._sessions.remember(known)

    async def _end(self, known: KnownTurn, now: float) -> None:
        if self._sessions.followed(known, "ended"):
            await self._record(followed(known, [], kind="ended", trainable=True, now=now))
            await self._supersede(echoes.superseded_at_end(known, await self._sessions.attempts(known.asked)), now)

    async def _supersede(self, others: Sequence[KnownTurn], now: float) -> None:
        for other in others:
            if self._sessions.followed(other, "superseded"):
                await self._record(followed(other, [], kind="superseded", trainable=False, now=now))

    async def _speaker(
        self, caller: Caller, ask: Ask, digests: Sequence[str], link: Link | None, now: float
    ) -> Speaker:
        past = link.past.known if link else None
        session = caller.session or (past.session if past else await self._begun(digests[-1], now))
        first = await self._sessions.first(caller.session) if caller.session and not (past or caller.thread) else None
        thread, kind = thread_and_kind(caller, ask.messages, ask.tools, past, first)
        return Speaker(session or self._new_session(caller, ask), thread, kind)

    async def _begun(self, asked: str, now: float) -> str | None:
        """The session of an attempt of this same request that was cut a moment ago, if there is one."""
        attempts = await self._sessions.attempts(asked)
        cut = [known for known in attempts if known.cut and now - known.finished_at < RETRY_WITHIN_S]
        return cut[-1].session if cut else None

    def _new_session(self, caller: Caller, ask: Ask) -> str:
        return session_id(self._secret, caller.tenant, caller.policy, ask.family or new_id())


def scope_of(caller: Caller, ask: Ask) -> str:
    """Where the ask's conversation is looked up. Texts that are continued never meet conversations."""
    return caller.scope if ask.prompt is None else f"{caller.scope}\0text"
