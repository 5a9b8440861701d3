"""How much is measured: the full plan, and the quick one that shows that every part works."""

import msgspec

from benchmarks.proxy.workload import SHORT, Shape


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The loads of one run. `paced` maps numbers of streams to the shape of their load."""

    paced: dict[int, Shape]
    paced_s: float
    unpaced_s: float
    unpaced_streams: int
    short: Shape = SHORT
    long: Shape = Shape(reply=32)
    tokens_per_s: float = 20.0


FULL = Plan(
    # With few streams replies are short, so that there are enough of them
    paced={1: Shape(reply=16), 16: Shape(reply=24), 128: Shape(reply=96), 512: Shape(reply=96)},
    paced_s=12.0,
    unpaced_s=8.0,
    unpaced_streams=16,
)
QUICK = Plan(
    paced={1: Shape(reply=8), 16: Shape(reply=16)},
    paced_s=3.0,
    unpaced_s=2.0,
    unpaced_streams=8,
)
