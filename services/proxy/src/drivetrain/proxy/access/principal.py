"""Whom a request's key speaks for, before anything else of the request is looked at."""

import msgspec

from drivetrain.common.identity import RolloutKey
from drivetrain.common.keys import Role
from drivetrain.proxy.turns import Consent

TENANT = "local"
"""The tenant of every key that is not a rollout's, while no keys file is set."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a key.

    `policies` None means every policy. `consent` is the most that a request with this key may give, and what is taken
    of one that does not say; None leaves both to the service. `rollout` is there for a signed rollout key alone; an
    API key of the role `rollout` is treated as a rollout's traffic that belongs to no known rollout. An `admin` may
    give feedback on the replies of every tenant.
    """

    key_id: str
    tenant: str = TENANT
    role: Role = "person"
    policies: tuple[str, ...] | None = None
    consent: Consent | None = None
    rollout: RolloutKey | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def may_use(self, policy: str) -> bool:
        """Whether this key is good for a policy."""
        return self.policies is None or policy in self.policies
