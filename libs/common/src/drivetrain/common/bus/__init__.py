"""The durable bus: JetStream, and an in-memory twin with the same contract."""

from drivetrain.common.bus.base import Bus, BusError, Consumer, Delivery, Stored, Subscription
from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.bus.streams import STREAMS, StreamSpec

__all__ = [
    "STREAMS",
    "Bus",
    "BusError",
    "Consumer",
    "Delivery",
    "MemoryBus",
    "NatsBus",
    "Stored",
    "StreamSpec",
    "Subscription",
    "connect",
]
