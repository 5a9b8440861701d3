"""Which version a session's next request is to get, and by which name it is asked for at a replica. Pure."""

import hashlib
from collections.abc import Collection

import msgspec

from drivetrain.common.events import Post, ReplicaRotation
from drivetrain.proxy.engines.base import LabelSpan, Sampled


class Asked(msgspec.Struct, frozen=True):
    """An adapter that a request asks for: its name, its version, and the label of the weights that it is for."""

    name: str
    version: int
    label: str

    def relabelled(self, sampled: Sampled) -> Sampled:
        """The engine labels tokens with the weights below the adapter: over those it was made for they are the
        adapter's version, over any others no version that ever was."""
        if sampled.spans is None:
            return sampled
        spans = [
            LabelSpan(
                span.start,
                span.end,
                str(self.version) if span.version == self.label else f"{self.name} over {span.version}",
            )
            for span in sampled.spans
        ]
        return msgspec.structs.replace(sampled, spans=spans)


def wanted(rotation: ReplicaRotation, session: str) -> int:
    """The version for a session that has none yet: the candidate for its share of the sessions, else the promoted
    one. The same everywhere, and of another candidate another share."""
    if rotation.canary is None:
        return rotation.version
    drawn = hashlib.blake2b(f"{session}\0{rotation.policy}@{rotation.canary}".encode(), digest_size=8).digest()
    return rotation.canary if int.from_bytes(drawn) < rotation.share * 2**64 else rotation.version


def served(post: Post) -> frozenset[int]:
    """The versions that a replica can be asked for."""
    return frozenset(post.adapters if post.label is None else (post.label, *post.adapters))


def asked(rotation: ReplicaRotation, post: Post, version: int) -> Asked | None:
    """What to ask a replica for, to get a version or else the nearest to it: the promoted one, the newest before it,
    the full weights alone (None). A candidate is given to nobody for whom it is not meant."""
    if version == post.label or not post.adapters or post.label is None:
        return None
    older = [adapter for adapter in sorted(post.adapters, reverse=True) if adapter <= rotation.version]
    here = next((one for one in (version, rotation.version, *older) if one in post.adapters), None)
    return None if here is None else Asked(f"{rotation.policy}@{here}", here, str(post.label))


def available(rotation: ReplicaRotation, version: int) -> bool:
    """Whether a replica in rotation can be asked for a version."""
    return any(not post.out and version in served(post) for post in rotation.posts)


def urls(rotation: ReplicaRotation, set_by_hand: Collection[str]) -> list[str]:
    """All replicas: those of the settings, and those that the rotation names beside them."""
    return [*set_by_hand, *(post.url for post in rotation.posts if post.url not in set_by_hand)]
