"""`drivetrain dead` on a real JetStream: what is listed, shown, put back and dropped."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.commands.dead import readable
from drivetrain.cli.errors import CliError
from drivetrain.common.bus.base import Consumer
from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.events import DeadLetter, Signal, encode
from drivetrain.common.identity import new_id
from drivetrain.common.settings import BusSettings

T = TypeVar("T")


def on_bus(url: str, act: Callable[[NatsBus], Awaitable[T]]) -> T:
    async def connected() -> T:
        bus = await connect(BusSettings(url=url))
        try:
            return await act(bus)
        finally:
            await bus.close()

    return asyncio.run(connected())


def signal_of(session: str, text: str = "no, shorter") -> Signal:
    return Signal(kind="feedback", tenant="t", policy="p", session=session, id="s1", value=-1.0, text=text, at=5.0)


def bury(url: str, signal: Signal, headers: dict[str, str] | None = None) -> int:
    """Let a consumer give up on a stored signal, as a service does; returns the number of the letter."""

    async def act(bus: NatsBus) -> int:
        await bus.publish(signal, headers)
        consumer = Consumer("SIGNALS", f"test-{signal.session}", (signal.subject(),))
        async with bus.consume(consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 5)
            await delivery.dead("the test wants it so")
        return int((await bus.js.stream_info("DEAD")).state.last_seq)

    return on_bus(url, act)


def drivetrain(url: str, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--bus", url], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def listed(url: str) -> dict[int, dict[str, Any]]:
    rows = [json.loads(line) for line in drivetrain(url, "dead", "list", "--json").splitlines()]
    return {row["number"]: row for row in rows}


def test_a_letter_is_listed_with_its_origin_and_reason(nats_url: str) -> None:
    signal = signal_of(new_id())
    number = bury(nats_url, signal)
    row = listed(nats_url)[number]
    assert row["stream"] == "SIGNALS"
    assert row["consumer"] == f"test-{signal.session}"
    assert row["subject"] == f"signal.feedback.0.p.{signal.session}.s1"
    assert row["reason"] == "the test wants it so"


def test_the_table_has_every_column(nats_url: str) -> None:
    bury(nats_url, signal_of(new_id()))
    table = drivetrain(nats_url, "dead", "list")
    assert all(word in table for word in ("number", "stream", "consumer", "subject", "reason"))


def test_show_prints_the_payload_whatever_it_is(nats_url: str) -> None:
    number = bury(nats_url, signal_of(new_id(), "zu lang"), {"traceparent": "00-ab-cd-01"})
    shown = json.loads(drivetrain(nats_url, "dead", "show", str(number)))
    assert shown["payload"]["text"] == "zu lang"
    assert shown["payload"]["v"] == 1
    assert shown["headers"]["traceparent"] == "00-ab-cd-01"


def test_replay_hands_the_message_to_its_consumer_again_and_removes_the_letter(nats_url: str) -> None:
    signal = signal_of(new_id())
    number = bury(nats_url, signal, {"traceparent": "00-ab-cd-01"})
    assert "Replayed 1." in drivetrain(nats_url, "dead", "replay", str(number))

    async def receive(bus: NatsBus) -> tuple[Any, str]:
        consumer = Consumer("SIGNALS", f"test-{signal.session}", (signal.subject(),))
        async with bus.consume(consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 5)
            await delivery.ack()
        return delivery.event, delivery.headers["traceparent"]

    assert on_bus(nats_url, receive) == (signal, "00-ab-cd-01")
    assert number not in listed(nats_url)


def test_after_a_replay_the_subject_still_holds_one_event(nats_url: str) -> None:
    signal = signal_of(new_id())
    drivetrain(nats_url, "dead", "replay", str(bury(nats_url, signal)))
    assert on_bus(nats_url, lambda bus: bus.publish(signal)) is None


def test_an_interrupted_replay_can_be_repeated(nats_url: str) -> None:
    signal = signal_of(new_id())
    number = bury(nats_url, signal)

    async def half(
        bus: NatsBus,
    ) -> None:  # the original is gone, the new copy is stored, the letter was not removed yet
        stored = await bus.get("SIGNALS", signal.subject())
        assert stored is not None
        await bus.js.delete_msg("SIGNALS", stored.sequence)
        await bus.publish(signal)

    on_bus(nats_url, half)
    drivetrain(nats_url, "dead", "replay", str(number))
    assert number not in listed(nats_url)


def test_a_large_message_is_replayed_whole(nats_url: str) -> None:
    signal = signal_of(new_id(), "long " * 400_000)
    drivetrain(nats_url, "dead", "replay", str(bury(nats_url, signal)))

    async def stored(bus: NatsBus) -> Any:
        found = await bus.get("SIGNALS", signal.subject())
        return found and found.event

    assert on_bus(nats_url, stored) == signal


def test_drop_removes_one_letter_and_keeps_the_others(nats_url: str) -> None:
    first, second = bury(nats_url, signal_of(new_id())), bury(nats_url, signal_of(new_id()))
    assert "Dropped 1." in drivetrain(nats_url, "dead", "drop", str(first))
    left = listed(nats_url)
    assert first not in left
    assert second in left


def test_drop_all_asks_first(nats_url: str) -> None:
    number = bury(nats_url, signal_of(new_id()))
    refused = CliRunner().invoke(app, ["dead", "drop", "--all", "--bus", nats_url], input="n\n")
    assert refused.exit_code == 1
    assert number in listed(nats_url)
    drivetrain(nats_url, "dead", "drop", "--all", "--yes")
    assert listed(nats_url) == {}
    assert "No dead letters." in drivetrain(nats_url, "dead", "list")


@pytest.mark.parametrize("arguments", [["dead", "replay"], ["dead", "drop", "3", "--all", "--yes"]])
def test_which_letters_must_be_said_in_one_way(nats_url: str, arguments: list[str]) -> None:
    with pytest.raises(CliError, match="name the letters by number, or give --all"):
        drivetrain(nats_url, *arguments)


def test_an_unknown_number_is_named(nats_url: str) -> None:
    with pytest.raises(CliError, match="there is no dead letter 999999"):
        drivetrain(nats_url, "dead", "show", "999999")


def test_without_a_bus_and_without_a_stack_the_remedy_is_named(home: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIVETRAIN_BUS_URL", raising=False)
    with pytest.raises(CliError, match="drivetrain up"):
        CliRunner().invoke(app, ["dead", "list"], catch_exceptions=False)


def test_a_payload_of_an_unknown_kind_is_shown_generically() -> None:
    letter = DeadLetter(
        stream="S", consumer="c", subject_of="s", sequence=1, reason="r", payload=bytes(40), headers={}, at=1.0
    )
    assert readable(encode(letter))["payload"] == f"<40 bytes {'00' * 32}…>"
    assert readable(b"\xc1") == {"not msgpack": "<1 bytes c1>"}
