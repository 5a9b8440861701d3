"""Every event that crosses the bus, one module per stream.

An event is a frozen struct that knows its stream and its subject; `encode` and `decode` are the only codec.
"""

from drivetrain.common.events.base import (
    Event,
    InvalidEvent,
    Message,
    NewerVersion,
    decode,
    encode,
    event_type,
    shard_of,
)
from drivetrain.common.events.dead import DeadLetter
from drivetrain.common.events.replicas import Post, ReplicaRotation, ReplicaSeen
from drivetrain.common.events.rollouts import (
    FinishReason,
    RolloutCancel,
    RolloutFinished,
    RolloutMoved,
    RolloutRef,
    RolloutRequested,
    RolloutStarted,
    RolloutState,
)
from drivetrain.common.events.scores import GroupRanked, RolloutScored, Standing, TurnScored, Verdict, Vote
from drivetrain.common.events.signals import Signal
from drivetrain.common.events.turns import Place, Sampling, Span, TurnFollowed, TurnRecorded
from drivetrain.common.events.weights import (
    WeightsCandidate,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRollback,
    WeightsRolledback,
)

__all__ = [
    "DeadLetter",
    "Event",
    "FinishReason",
    "GroupRanked",
    "InvalidEvent",
    "Message",
    "NewerVersion",
    "Place",
    "Post",
    "ReplicaRotation",
    "ReplicaSeen",
    "RolloutCancel",
    "RolloutFinished",
    "RolloutMoved",
    "RolloutRef",
    "RolloutRequested",
    "RolloutScored",
    "RolloutStarted",
    "RolloutState",
    "Sampling",
    "Signal",
    "Span",
    "Standing",
    "TurnFollowed",
    "TurnRecorded",
    "TurnScored",
    "Verdict",
    "Vote",
    "WeightsCandidate",
    "WeightsHeld",
    "WeightsLoaded",
    "WeightsPromoted",
    "WeightsRollback",
    "WeightsRolledback",
    "decode",
    "encode",
    "event_type",
    "shard_of",
]
