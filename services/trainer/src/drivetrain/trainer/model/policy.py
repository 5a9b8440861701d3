"""The model in training: loading it, full weights or a LoRA adapter, its frozen reference, and its weights by name."""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.model.scoring import Scorer, sequence_logprobs
from drivetrain.trainer.tree.attention import NAME
from drivetrain.trainer.tree.tree import Item, tree_of

HEAD_TOLERANCE = 0.1
TREE_TOLERANCE = 0.02
"""Nats; what float32 rounding on a GPU may come to, and far less than a token that is seen or not makes."""

log = get_logger("trainer")


class BadModel(ValueError):
    """A model folder that cannot be trained from; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter on every linear layer but the output head."""

    rank: int
    alpha: float


def bfloat16_is_native(device: str) -> bool:
    """Whether a device multiplies bfloat16 in hardware; elsewhere it is slower than float32."""
    if torch.device(device).type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16"))


def load_tokenizer(model: str) -> Any:
    """The model's tokenizer, with its chat template.

    Raises:
        BadModel: there is none.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise BadModel(
            f"model {model} has no usable tokenizer ({error}): put tokenizer.json and tokenizer_config.json of the "
            "same model into that folder"
        ) from error
    if not getattr(tokenizer, "chat_template", None):
        raise BadModel(f"the tokenizer of {model} has no chat template: add chat_template.jinja to that folder")
    return tokenizer


def load_causal_lm(model: str, dtype: torch.dtype, device: str = "cpu") -> nn.Module:
    """The model's weights in a dtype, without dropout.

    Raises:
        BadModel: it cannot be loaded, or has weights that no file gave.
    """
    try:
        loaded, info = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, output_loading_info=True)
    except (OSError, ValueError, KeyError) as error:
        raise BadModel(f"model {model} cannot be loaded ({error}): give a folder or name of a causal LM") from error
    if info["missing_keys"]:
        raise BadModel(f"model {model} lacks the weights {sorted(info['missing_keys'])[:3]}: its files are incomplete")
    network: nn.Module = loaded.to(device).eval()
    _check_head(network, model)
    read_trees(network)
    return network


@torch.no_grad()
def _check_head(network: nn.Module, name: str) -> None:
    """The scorer applies the output layer itself: that must be all that the model does to its hidden states."""
    ids = (1, 2, 3, 4)
    ours = Scorer(network)(tree_of({0: Item(ids[:1], ids[1:])})).logprobs[0].tolist()
    if _apart(ours, sequence_logprobs(network, ids)) > HEAD_TOLERANCE:
        raise BadModel(f"the output head of {name} scales or caps its logits, which this trainer does not support")


@torch.no_grad()
def read_trees(network: Any) -> bool:
    """Let the model attend over token trees, if it then gives what it gives for each line alone; says whether."""
    lines = {number: Item((1, 2), (3, 4 + number, 5, 6)) for number in range(3)}
    alone = [sequence_logprobs(network, item.ids.tolist())[1:] for item in lines.values()]
    usual = network.config._attn_implementation
    try:
        if getattr(network.config, "attention_chunk_size", None):
            raise ValueError("its attention is cut into chunks")
        network.set_attn_implementation(NAME)
        if network.config._attn_implementation != NAME:
            raise ValueError("its attention is its own")
        together = Scorer(network)(tree_of(lines)).logprobs
        found = max(_apart(together[number].tolist(), alone[number]) for number in lines)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        log.info("the model reads no trees", why=str(error))
        found = math.inf
    if found <= TREE_TOLERANCE:
        return True
    network.set_attn_implementation(usual)
    log.warning("the model is trained line by line: its layers do more than attend to ancestors", apart=found)
    return False


def _apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True))


class CausalPolicy:
    """A causal LM in training with its frozen reference (the same weights before training)."""

    def __init__(self, network: nn.Module, reference: nn.Module | None, autocast: torch.dtype | None = None) -> None:
        """`reference` is a second, frozen copy; None means `network` is a LoRA model, whose reference is itself
        without the adapter."""
        self.network = network
        self._adapter = None if reference is not None else network
        self.causal: nn.Module = network if reference is not None else network.get_base_model()  # type: ignore[operator]
        self.scorer = Scorer(self.causal, autocast)
        self._reference = Scorer(reference, autocast) if reference is not None else self.scorer
        self.parameters: Sequence[nn.Parameter] = [p for _, p in self.named_trainable()]

    @contextmanager
    def reference(self) -> Iterator[Scorer]:
        """See `learner.Policy.reference`."""
        off: AbstractContextManager[Any] = self._adapter.disable_adapter() if self._adapter else nullcontext()  # type: ignore[operator]
        with off:
            yield self._reference

    @property
    def is_adapter(self) -> bool:
        """Whether an adapter is trained rather than the weights themselves."""
        return self._adapter is not None

    def named_trainable(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return [(name, p) for name, p in self.network.named_parameters() if p.requires_grad]

    def trainable(self) -> dict[str, Tensor]:
        """The tensors that training changes, by name: enough to resume on top of the base model."""
        return {name: parameter.detach() for name, parameter in self.named_trainable()}

    def load_trainable(self, tensors: dict[str, Tensor]) -> None:
        """Take over tensors that `trainable` gave.

        Raises:
            BadModel: names or shapes are not this model's.
        """
        own = self.trainable()
        if own.keys() != tensors.keys() or any(own[name].shape != t.shape for name, t in tensors.items()):
            raise BadModel("the checkpoint's weights are not of this model: check `model` and `lora` against the store")
        for name, tensor in tensors.items():
            own[name].copy_(tensor)

    def full_weights(self) -> dict[str, Tensor]:
        """All weights under the names of the model's own files, an adapter merged in, tied weights once."""
        seen: set[int] = set()
        weights: dict[str, Tensor] = {}
        for name, parameter in self.causal.named_parameters():
            if "lora_" in name or parameter.data_ptr() in seen:
                continue
            seen.add(parameter.data_ptr())
            owner = self.causal.get_submodule(name.rpartition(".base_layer.")[0]) if ".base_layer." in name else None
            value = parameter.detach()
            if owner is not None and name.endswith(".weight"):
                value = value + owner.get_delta_weight("default").detach()  # type: ignore[operator]
            weights[name.replace(".base_layer.", ".")] = value
        return weights

    def probe(self, ids: Sequence[int]) -> list[float]:
        """log p(token t | tokens < t) for t ≥ 1, of the weights as they are now."""
        return sequence_logprobs(self.causal, ids)


def load_policy(
    model: str,
    dtype: torch.dtype,
    lora: Lora | None,
    anchored: bool,
    autocast: torch.dtype | None = None,
    device: str = "cpu",
) -> CausalPolicy:
    """Load a model for training. `anchored` says whether a reference is needed at all.

    Raises:
        BadModel: see `load_causal_lm`; or its output head is more than a linear layer.
    """
    network = load_causal_lm(model, dtype, device)
    if lora is not None:
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"
        )
        policy = CausalPolicy(get_peft_model(network, config).eval(), None, autocast)
    else:
        reference = load_causal_lm(model, dtype, device).requires_grad_(False) if anchored else network
        policy = CausalPolicy(network, reference, autocast)
    return policy
