"""Who reaches whom under a set of NetworkPolicies, as a cluster that enforces them decides."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.deploy.tools import Document

NAMESPACE = "drivetrain"


@dataclass(frozen=True)
class Peer:
    """A pod by its labels, in a namespace."""

    labels: dict[str, str]
    namespace: str = NAMESPACE
    namespace_labels: dict[str, str] = field(default_factory=dict)


def named(name: str) -> Peer:
    """One of our pods."""
    return Peer({"app.kubernetes.io/name": name}, namespace_labels={"kubernetes.io/metadata.name": NAMESPACE})


def reaches(policies: Sequence[Document], source: Peer, target: Peer, port: int) -> bool:
    """Whether a TCP connection is let out of the source and into the target."""
    out = _permits(policies, source, target, port, "Egress", ("egress", "to"))
    return out and _permits(policies, target, source, port, "Ingress", ("ingress", "from"))


def _permits(policies: Sequence[Document], pod: Peer, other: Peer, port: int, way: str, words: tuple[str, str]) -> bool:
    specs = [policy["spec"] for policy in policies if policy["metadata"]["namespace"] == pod.namespace]
    bound = [spec for spec in specs if way in spec["policyTypes"] and _selects(spec["podSelector"], pod.labels)]
    rules = [rule for spec in bound for rule in spec.get(words[0], [])]
    return not bound or any(_rule_permits(rule, words[1], other, port) for rule in rules)


def _rule_permits(rule: Document, word: str, other: Peer, port: int) -> bool:
    ports = [entry["port"] for entry in rule["ports"] if entry["protocol"] == "TCP"]
    return port in ports and (word not in rule or any(_is(peer, other) for peer in rule[word]))


def _is(peer: Document, other: Peer) -> bool:
    if "namespaceSelector" in peer:
        there = _selects(peer["namespaceSelector"], other.namespace_labels)
    else:
        there = other.namespace == NAMESPACE
    return there and _selects(peer.get("podSelector", {}), other.labels)


def _selects(selector: Document, labels: dict[str, str]) -> bool:
    unknown = set(selector) - {"matchLabels"}
    assert not unknown, f"this reading of policies knows no {unknown}"
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
