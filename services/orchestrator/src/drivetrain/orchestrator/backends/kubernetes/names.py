"""The names and labels of what we make in a cluster."""

import hashlib
import re

INSTANCE = "drivetrain.dev/instance"
SANDBOX = "drivetrain.dev/sandbox"
"""Annotation with the sandbox's name, of which the Job's name is only a shadow."""
CLIENT = "drivetrain-proxy-client"
"""Label that the NetworkPolicies of `k8s/` let through to the proxy; graders have it not."""
LONGEST = 40


def job_name(sandbox: str) -> str:
    """A name for a sandbox's Job, a DNS label: readable, and as unique as the sandbox's own name."""
    readable = re.sub(r"[^a-z0-9]+", "-", sandbox.lower()).strip("-")[:LONGEST].strip("-")
    return f"dt-{readable}-{hashlib.blake2b(sandbox.encode(), digest_size=5).hexdigest()}"


def label(value: str) -> str:
    """A label's value from any text."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", value)[:63].strip("-_.")


def selector(instance: str) -> str:
    """What tells our objects from all others in a namespace."""
    return f"{INSTANCE}={instance}"
