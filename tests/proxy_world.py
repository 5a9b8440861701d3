"""A proxy that only knows and remembers: conversations without an engine, for tests of who continues what."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drivetrain.common.events import Event, Message, Place, Sampling, TurnFollowed, TurnRecorded
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.conversations.conversations import Conversations
from drivetrain.proxy.conversations.echoes import Where, lines
from drivetrain.proxy.conversations.lineage import digest_of
from drivetrain.proxy.identify import Identifier
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.turns import Ask, Caller, KnownTurn, Past

SECRET = b"a secret of the tests"
TOOLS = [{"type": "function", "function": {"name": "run"}}]
SYSTEM: Message = {"role": "system", "content": "You work."}


class Memory:
    """A session index without bounds."""

    def __init__(self) -> None:
        self.turns: list[KnownTurn] = []
        self.seen: set[tuple[str, str]] = set()

    async def find(self, digests: Sequence[str]) -> Past | None:
        found = ((known, d) for d in digests for known in reversed(self.turns) if d in known.lines)
        known = next((known for known, _ in found), None)
        return Past(known=known, prompt=[], response=[]) if known else None

    async def remember(self, known: KnownTurn) -> None:
        self.turns.append(known)

    def followed(self, known: KnownTurn, digest: str) -> bool:
        new = (known.turn, digest) not in self.seen
        self.seen.add((known.turn, digest))
        return new

    async def attempts(self, *requests: str) -> list[KnownTurn]:
        return [known for known in self.turns if set(known.requests) & set(requests)]

    async def first(self, session: str) -> KnownTurn | None:
        return next((known for known in self.turns if known.session == session), None)


@dataclass
class World:
    """All that the proxy knows and says, with a clock that ticks at each call."""

    memory: Memory = field(default_factory=Memory)
    events: list[Event] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self._identifier = Identifier(SECRET, "train")
        self._conversations = Conversations(cast(Sessions, self.memory), self._record, SECRET)

    async def _record(self, event: Event) -> bool:
        self.events.append(event)
        return True

    def states(self, turn: str) -> list[TurnFollowed]:
        return [event for event in self.events if isinstance(event, TurnFollowed) and event.turn == turn]

    async def ask(self, tenant: str, headers: dict[str, str], ask: Ask) -> tuple[Caller, Where]:
        """A request arrives."""
        self.now += 1
        caller = self._identifier.caller(Principal(key_id="k", tenant=tenant), headers, None, ask)
        where = await self._conversations.place(caller, ask, self.now)
        return caller, await self._conversations.note(caller, ask, where, self.now)

    async def answer(self, caller: Caller, where: Where, ask: Ask, reply: Message, finish: Any = "stop") -> str:
        """The turn ends; its id."""
        turn, link = f"turn{len(self.memory.turns)}", where.link
        parent = link.past.known if link and (link.unchanged or link.volatile) else None
        line, *also = lines(where.digests, ask.messages, reply, link) or [""]
        depth, tools = len(ask.messages) + 1, digest_of(ask.tools)
        event = TurnRecorded(
            tenant=caller.tenant,
            policy=caller.policy,
            session=where.speaker.session,
            turn=turn,
            parent=parent.turn if parent else None,
            thread=where.speaker.thread,
            kind=where.speaker.kind,
            prompt_ids=b"",
            response_ids=b"",
            logprobs=b"",
            versions=[],
            sampling=Sampling(),
            finish=finish,
            exact=True,
            messages=ask.messages[link.depth if parent and link else 0 :],
            reply=reply,
            place=Place(line=line, also=also, asked=where.asked, depth=depth, tools=tools),
            started_at=self.now,
            finished_at=self.now + 0.5,
        )
        await self._conversations.remember(event, self.now, done=caller.done)
        return turn


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


class Talk:
    """One speaker who says nothing of himself, unless headers are given."""

    def __init__(self, world: World, tools: list[dict[str, Any]] | None = None, **headers: str) -> None:
        self.world, self.tools = world, TOOLS if tools is None else tools
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def say(
        self, messages: list[Message], reply: Message, finish: str = "stop", **hints: str
    ) -> tuple[str, Where]:
        ask = Ask(model="default", messages=messages, tools=self.tools, hints=hints)
        caller, where = await self.world.ask("anna", self.headers, ask)
        return await self.world.answer(caller, where, ask, reply, finish), where


def known(**fields: Any) -> KnownTurn:
    """A known turn of which only these fields matter."""
    whole: dict[str, Any] = {
        "turn": "t",
        "parent": None,
        "tenant": "local",
        "policy": "p",
        "session": "s",
        "rollout": None,
        "prompt_ids": b"",
        "response_ids": b"",
        "messages": [],
        "reply": said(""),
        "line": "",
        "depth": 1,
        "tools": "",
        "kind": "main",
        "trainable": True,
        "finished_at": 0.0,
    }
    return KnownTurn(**(whole | fields))


def past_of(turn: KnownTurn, seen: list[Message]) -> Past:
    """That turn without tokens, and the conversation as the model saw it."""
    return Past(known=turn, prompt=[], response=[], seen=lambda: seen)
