"""A server that an older version has set up takes what a newer one publishes."""

from pathlib import Path

import nats

from drivetrain.common.bus import connect
from drivetrain.common.events import GroupRanked
from drivetrain.common.settings import BusSettings
from tests.servers import free_port, nats_command, running


async def test_a_stream_of_an_older_version_takes_the_new_subjects_and_keeps_what_it_holds(tmp_path: Path) -> None:
    port = free_port()
    with running(nats_command(port, tmp_path / "data"), port, tmp_path / "log"):
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        js = client.jetstream()
        await js.add_stream(name="SCORES", subjects=["turn.scored.>"], allow_direct=True, max_msgs=1000)
        await js.publish("turn.scored.0.p.s.t.rules.0", b"kept")
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        ranked = GroupRanked(policy="p", run="r", group="g", group_size=2, judge="rules", standings=[], at=1.0)
        assert await bus.publish(ranked) == 2
        info = await js.stream_info("SCORES")
        assert (info.state.messages, info.config.max_msgs) == (2, 1000)
        assert set(info.config.subjects or ()) == {"turn.scored.>", "rollout.scored.>", "group.ranked.>"}
        await bus.close()
        await client.close()
