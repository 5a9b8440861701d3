"""Wires the trainer: model, store, bus, and its parts; see `training` for the order of things."""

import asyncio
from functools import partial
from pathlib import Path

import torch
import transformers

from drivetrain.common.bus import Bus, Consumer, connect
from drivetrain.common.bus.handling import handle
from drivetrain.common.errors import CannotStart
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.common.store import BadCheckpoint, CheckpointStore
from drivetrain.trainer.advantages import METHODS
from drivetrain.trainer.batches.batches import BatchRules
from drivetrain.trainer.batches.collecting import Collector, Turns
from drivetrain.trainer.batches.collecting_rollouts import Rollouts
from drivetrain.trainer.batches.inbox import Inbox, Memory
from drivetrain.trainer.batches.intake import intake
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints
from drivetrain.trainer.checkpoints.publishing import Publisher
from drivetrain.trainer.learning.learner import Learner
from drivetrain.trainer.learning.recipe import base_teacher, build_comparison, build_recipe
from drivetrain.trainer.learning.schedule import learning_rate
from drivetrain.trainer.learning.studio import Studio
from drivetrain.trainer.lineage.lineage import Lineage
from drivetrain.trainer.model.policy import (
    BadModel,
    CausalPolicy,
    Lora,
    bfloat16_is_native,
    load_policy,
    load_tokenizer,
)
from drivetrain.trainer.samples.hints import Tokenizer
from drivetrain.trainer.samples.scores import Limits, Scores
from drivetrain.trainer.settings.learning import GroupSettings, HintSettings
from drivetrain.trainer.settings.settings import TrainerSettings
from drivetrain.trainer.telemetry import Meters
from drivetrain.trainer.training import Pace, Trainer

PROBE = "A probe of the weights: seven brown owls counted eleven ships at dawn, then slept."


async def start(lifecycle: Lifecycle, settings: TrainerSettings) -> None:
    """Load the model and train until the service stops.

    Raises:
        CannotStart: the model or the store cannot be used; the message says what to do.
    """
    transformers.utils.logging.disable_progress_bar()
    loaded: list[bool] = []
    lifecycle.ready_when("model is loaded", lambda: bool(loaded))
    bus = await connect(settings.bus)
    lifecycle.stack.push_async_callback(bus.close)
    try:
        tokenizer = await asyncio.to_thread(load_tokenizer, settings.model)
        model = await asyncio.to_thread(build_model, settings)
        await serve(lifecycle, settings, bus, tokenizer, model, Meters())
    except (BadModel, BadCheckpoint) as error:
        raise CannotStart(str(error)) from error
    loaded.append(True)


def build_model(settings: TrainerSettings) -> CausalPolicy:
    """The base model, ready to be trained as the settings say."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    lora = Lora(settings.lora.rank, settings.lora.alpha) if settings.lora else None
    autocast = compute_dtype(settings)
    method = METHODS[settings.method]
    anchored = build_recipe(settings).kl > 0 or method.uses_reference or base_teacher(settings)
    return load_policy(settings.model, torch.float32, lora, anchored, autocast, settings.device)


def compute_dtype(settings: TrainerSettings) -> torch.dtype | None:
    """What layers calculate in, None for the weights' own float32."""
    wanted = settings.precision.compute
    native = wanted == "auto" and bfloat16_is_native(settings.device)
    return torch.bfloat16 if wanted == "bfloat16" or native else None


async def serve(
    lifecycle: Lifecycle,
    settings: TrainerSettings,
    bus: Bus,
    tokenizer: Tokenizer,
    model: CausalPolicy,
    meters: Meters,
) -> Trainer:
    """Resume from the store and spawn the parts."""
    checkpoints = Checkpoints(
        CheckpointStore(settings.store),
        settings.policy,
        base_name(settings.model),
        getattr(torch, settings.precision.checkpoint),
    )
    vocabulary = model.causal.get_input_embeddings().num_embeddings  # type: ignore[operator]
    inbox = build_inbox(settings, bus, tokenizer, vocabulary, checkpoints, meters)
    studio = Studio(
        model,
        Learner(model, build_optimizer(settings, model), build_recipe(settings)),
        lambda: build_model(settings),
        tokenizer.encode(PROBE, add_special_tokens=False),
        partial(learning_rate, settings.optimizer.learning_rate, settings.optimizer.settle_steps),
    )
    pace = Pace(settings.max_ahead, settings.keep, settings.batch.max_staleness, settings.state_every)
    publisher = Publisher(bus, checkpoints, studio, lifecycle, meters)
    lineage = await known_lineage(bus, checkpoints)
    trainer = Trainer(inbox, checkpoints, studio, publisher, pace, lineage, meters, lifecycle)
    await trainer.resume()
    weights = weights_consumer(settings.policy)
    lifecycle.spawn(handle(bus, weights, trainer.on_weights, lifecycle, concurrency=1), "weights")
    lifecycle.spawn(intake(bus, settings, inbox, lifecycle), "scores")
    lifecycle.spawn(trainer.run(), "training")
    lifecycle.spawn(_wake_at_stop(lifecycle, trainer), "stop")
    return trainer


def base_name(model: str) -> str:
    """The base model as a manifest names it: a folder by its absolute path."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model


def build_optimizer(settings: TrainerSettings, model: CausalPolicy) -> torch.optim.Optimizer:
    """AdamW over what is trained."""
    rules = settings.optimizer
    return torch.optim.AdamW(
        model.parameters,
        lr=rules.learning_rate,
        betas=(rules.beta1, rules.beta2),
        weight_decay=rules.weight_decay,
        fused=True,
    )


def build_inbox(
    settings: TrainerSettings,
    bus: Bus,
    tokenizer: Tokenizer,
    vocabulary: int,
    checkpoints: Checkpoints,
    meters: Meters,
) -> Inbox:
    """The inbox, knowing what stored checkpoints say was trained already."""
    method = METHODS[settings.method]
    wording = (settings.hint or HintSettings()).wording if method.uses_teacher else None
    limits = Limits(settings.max_tokens, vocabulary)
    scores = Scores(bus, tokenizer, method, wording, limits, meters.no_teacher, meters.dropped)
    collector: Collector = Turns(scores)
    if method.unit != "turn":
        group = settings.group or GroupSettings()
        collector = Rollouts(scores, build_comparison(settings), group.max_wait_s, group.failed_outcome)
    batch = settings.batch
    rules = BatchRules(batch.size, batch.min_size, batch.max_wait_s, batch.max_staleness)
    reads = settings.judge if method.unit == "turn" else f"{settings.judge}/rollouts"
    memory = Memory(checkpoints.position(reads), checkpoints.trained(), settings.judge, reads)
    return Inbox(bus, collector, rules, memory, meters.dropped)


async def known_lineage(bus: Bus, checkpoints: Checkpoints) -> Lineage:
    """The stored lineage; no version that the bus has ever heard of is used again."""
    lineage = checkpoints.lineage()
    for stored in await bus.last("WEIGHTS", f"weights.candidate.{checkpoints.policy}.*"):
        lineage = lineage.reserve(int(stored.subject.rpartition(".")[2]))
    return lineage


def weights_consumer(policy: str) -> Consumer:
    """What became of the policy's versions."""
    return Consumer(
        stream="WEIGHTS",
        durable=f"trainer-{policy}-weights",
        subjects=tuple(f"weights.{fate}.{policy}.*" for fate in ("promoted", "held", "rolledback")),
        max_ack_pending=1,
    )


async def _wake_at_stop(lifecycle: Lifecycle, trainer: Trainer) -> None:
    await lifecycle.until_stopped()
    trainer.wake.set()
