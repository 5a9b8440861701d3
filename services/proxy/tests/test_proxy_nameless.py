"""A client that says nothing of itself: its sessions, agents and compactions are told apart by what they say alone."""

from collections import Counter

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.echoes import Where
from tests.proxy_world import SYSTEM, Talk, World, said, user

AGENT: Message = {"role": "system", "content": "You search."}
SUMMARY = "Summarise the conversation so far."


def results(*texts: str) -> list[Message]:
    return [{"role": "tool", "tool_call_id": f"made up {n}", "content": text} for n, text in enumerate(texts)]


def calling(*tasks: str) -> Message:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "run", "arguments": f'{{"task": "{task}"}}'}}
        for n, task in enumerate(tasks)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def parent_of(where: Where) -> str | None:
    return where.link.past.known.turn if where.link else None


class Client:
    """One conversation as its client holds it."""

    def __init__(self, world: World, first: list[Message]) -> None:
        self.talk, self.history, self.turns = Talk(world), first, list[str]()

    async def turn(self, reply: Message, *then: Message) -> Where:
        """Ask with what there is; the reply and what comes after it are the history of the next request."""
        before = self.turns[-1] if self.turns else None
        turn, where = await self.talk.say(self.history, reply)
        assert parent_of(where) == before
        self.history = [*self.history, reply, *then]
        self.turns.append(turn)
        return where


def states(world: World, turn: str) -> list[list[Message]]:
    return [state.messages for state in world.states(turn)]


async def test_two_sessions_that_begin_with_the_same_words_and_take_turns_stay_two() -> None:
    world = World()
    one, two = (Client(world, [SYSTEM, user("Fix it")]) for _ in range(2))
    sessions: dict[Client, set[str]] = {one: set(), two: set()}
    for number in range(4):
        for name, client in (("one", one), ("two", two)):
            where = await client.turn(said(f"{name} {number}"), user("Go on"))
            sessions[client].add(where.speaker.session)
            assert (where.speaker.thread, where.speaker.kind) == ("main", "main")
    assert [len(found) for found in sessions.values()] == [1, 1]
    assert sessions[one].isdisjoint(sessions[two])
    for client in (one, two):
        assert [states(world, turn) for turn in client.turns] == [[[user("Go on")]]] * 3 + [[]]


async def test_two_sessions_that_are_answered_alike_part_where_their_people_do() -> None:
    # Until then nothing tells them apart: what comes next is one more next state of the same turn, a branch.
    world = World()
    one, two = Client(world, [SYSTEM, user("Hi")]), Client(world, [SYSTEM, user("Hi")])
    await one.turn(said("Hello"), user("Fix it"))
    first, _ = await two.talk.say(two.history, said("Hello"))
    two.history, two.turns = [*two.history, said("Hello"), user("Write it")], [first]
    await two.turn(said("Written"), user("Thanks"))
    turn, where = await one.talk.say(one.history, said("Fixed"))
    assert parent_of(where) in (one.turns[0], first)
    one.history, one.turns = [*one.history, said("Fixed"), user("Good")], [turn]
    await one.turn(said("Bye"))
    await two.turn(said("Bye"))
    said_next = [messages for turn in (first, one.turns[0]) for messages in states(world, turn)]
    assert [user("Write it")] in said_next
    assert states(world, turn) == [[user("Good")]]


async def test_parallel_agents_and_their_parent_each_go_on_in_their_own_place() -> None:
    world = World()
    parent = Client(world, [SYSTEM, user("Fix it")])
    call = calling("look here", "look there")
    await parent.turn(call, *results("found here", "found there"))
    agents = [Client(world, [AGENT, user(f"look {place}")]) for place in ("here", "there")]
    for number in range(3):
        for agent, place in zip(agents, ("here", "there"), strict=True):
            where = await agent.turn(calling(f"ls {place} {number}"), *results(f"files {place} {number}"))
            assert where.speaker.kind == "main"
    where = await parent.turn(said("Done."), user("Thanks"))
    assert states(world, parent.turns[0]) == [results("found here", "found there")]
    for agent, place in zip(agents, ("here", "there"), strict=True):
        assert [states(world, turn) for turn in agent.turns[:-1]] == [
            [results(f"files {place} {number}")] for number in range(2)
        ]
    sessions = Counter(known.session for known in world.memory.turns)
    assert sorted(sessions.values()) == [2, 3, 3]


async def test_a_compaction_in_the_middle_begins_anew_and_loses_no_next_state() -> None:
    world = World()
    client = Client(world, [SYSTEM, user("Fix it")])
    for number in range(3):
        await client.turn(calling(f"step {number}"), *results(f"result {number}"))
    last = client.turns[-1]
    # The history goes to the model once more, without tools and under another system prompt, to be summarised.
    summary = Talk(world, tools=[])
    asked: list[Message] = [{"role": "system", "content": "You summarise."}, *client.history[1:], user(SUMMARY)]
    _, beside = await summary.say(asked, said("Three steps were done."))
    assert parent_of(beside) is None
    # Then the conversation begins anew with the summary, and what was said last.
    fresh = Client(world, [SYSTEM, user("So far: three steps were done."), user("Go on")])
    where = await fresh.turn(calling("step 4"), *results("result 4"))
    assert where.link is None
    await fresh.turn(said("Done."), user("Thanks"))
    await fresh.turn(said("Bye."))
    assert [states(world, turn) for turn in client.turns[:-1]] == [[results("result 0")], [results("result 1")]]
    assert states(world, last) == []  # its results were never answered: it goes idle
    assert states(world, fresh.turns[0]) == [results("result 4")]


async def test_a_compaction_that_keeps_the_newest_messages_goes_on_from_none_of_the_old_turns() -> None:
    world = World()
    client = Client(world, [SYSTEM, user("Fix it")])
    for number in range(3):
        await client.turn(calling(f"step {number}"), *results(f"result {number}"))
    kept = client.history[-2:]
    fresh = Client(world, [SYSTEM, user("So far: two steps were done."), *kept])
    where = await fresh.turn(said("Done."), user("Thanks"))
    assert where.link is None
    await fresh.turn(said("Bye."))
    assert states(world, fresh.turns[0]) == [[user("Thanks")]]
