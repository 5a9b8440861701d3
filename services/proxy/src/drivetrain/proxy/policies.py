"""The policies that this proxy serves: each with its replicas, its template and its gateway."""

from collections.abc import Callable, Mapping

from drivetrain.common.bus import Bus
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.gateway import Gateway
from drivetrain.proxy.prompts.folder import context_of
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.routing.pool import Pool
from drivetrain.proxy.routing.settings import PolicySettings
from drivetrain.proxy.sessions import Sessions
from drivetrain.proxy.settings import ProxySettings

PROBES = 2
"""Connections to a replica beside those of its requests."""


def renderings(lifecycle: Lifecycle, settings: ProxySettings) -> dict[str, Rendering]:
    """Every policy's template, loaded."""
    loaded = {}
    for name, policy in settings.served.items():
        template = Template(policy.model, policy.renderer, policy.tool_parser)
        loaded[name] = Rendering(template, settings.thread_chars)
        lifecycle.stack.callback(loaded[name].close)
    return loaded


def pools(lifecycle: Lifecycle, settings: ProxySettings, bus: Bus) -> dict[str, Pool]:
    """Every policy's replicas, watched from now on. The proxy is ready while one of them is well."""
    vllm, routing = _vllm(lifecycle, settings), settings.routing
    made = {
        name: Pool(name, policy.urls, vllm, bus, routing.limits, probe_s=routing.probe_s)
        for name, policy in settings.served.items()
    }
    lifecycle.ready_when("engine", lambda: any(pool.ready for pool in made.values()))
    for name, pool in made.items():
        lifecycle.spawn(pool.run(lambda: lifecycle.stopping), f"replicas of {name}")
    return made


def gateways(
    settings: ProxySettings,
    renderings: Mapping[str, Rendering],
    pools: Mapping[str, Pool],
    sessions: Sessions,
    recorder: Recorder,
) -> dict[str, Gateway]:
    """Every policy's gateway."""
    return {
        name: Gateway(
            engine=pools[name].engine,
            rendering=renderings[name],
            sessions=sessions,
            recorder=recorder,
            secret=settings.secret.get_secret_value().encode(),
            context_tokens=_context(policy, pools[name]),
            rollout_temperature=settings.rollout_temperature,
        )
        for name, policy in settings.served.items()
    }


def _vllm(lifecycle: Lifecycle, settings: ProxySettings) -> Vllm:
    waits = settings.engine
    replicas = sum(len(policy.urls) for policy in settings.served.values())
    vllm = Vllm(
        connect_s=waits.connect_s,
        first_byte_s=waits.first_byte_s,
        stall_s=waits.stall_s,
        connections=replicas * (settings.routing.max_in_flight + PROBES),
    )
    lifecycle.stack.push_async_callback(vllm.close)
    return vllm


def _context(policy: PolicySettings, pool: Pool) -> Callable[[], int]:
    """How many tokens a prompt and its reply may have: as set, as the engine says, or as the model was built."""
    built = context_of(policy.model) or 2048
    return lambda: policy.context_tokens or pool.context_tokens or built
