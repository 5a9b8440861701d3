"""A packed tree gives what each turn alone gives: loss and gradient of every parameter, for several kinds of model."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from drivetrain.trainer.model import answers
from drivetrain.trainer.model.policy import read_trees
from drivetrain.trainer.model.scoring import Scorer
from drivetrain.trainer.tree.attention import Layout, by_block, tree_attention
from drivetrain.trainer.tree.masks import explicit, mask_mod
from drivetrain.trainer.tree.packing import packs_of
from drivetrain.trainer.tree.tree import Item, Tree, tree_of

SIZES: dict[str, Any] = {
    "vocab_size": 12, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.4, "pad_token_id": 0,
}  # fmt: skip
MODELS: dict[str, Callable[[], nn.Module]] = {
    "tied": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "sliding": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=3)),
    "some layers slide": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=3, max_window_layers=1)
    ),
    "no positions in some layers": lambda: SmolLM3ForCausalLM(
        SmolLM3Config(**SIZES, no_rope_layer_interval=2, use_sliding_window=False)
    ),
    "learned positions": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=12, n_positions=64, n_embd=16, n_layer=2, n_head=4, initializer_range=0.4)
    ),
}
tokens = st.integers(1, 3)
ITEMS = st.lists(
    st.builds(
        Item,
        st.lists(tokens, min_size=1, max_size=8).map(tuple),
        st.lists(tokens, min_size=1, max_size=5).map(tuple),
        st.sampled_from([1.0, 0.7]),
    ),
    min_size=1,
    max_size=7,
).map(lambda items: dict(enumerate(items)))


@cache
def pair(kind: str) -> tuple[nn.Module, nn.Module]:
    """The same model twice: as transformers has it, and reading trees."""
    torch.manual_seed(3)
    plain = MODELS[kind]().eval()
    tree: Any = MODELS[kind]().eval()
    tree.load_state_dict(plain.state_dict())
    assert read_trees(tree)
    return plain, tree


def weight(number: int, offset: int) -> float:
    """What a token's log-probability counts in the loss: different for each."""
    return (-1) ** number * (1 + 0.3 * offset + 0.1 * number)


def naive(model: nn.Module, items: dict[int, Item]) -> tuple[float, dict[str, Tensor]]:
    """Turn by turn, by the model's own forward pass."""
    model.zero_grad()
    loss = torch.zeros(())
    for number, item in items.items():
        logits = model(input_ids=torch.from_numpy(item.ids)[None]).logits[0] / item.temperature
        first = len(item.prompt_ids)
        for offset, token in enumerate(item.response_ids):
            loss = loss - weight(number, offset) * logits[first + offset - 1].log_softmax(-1)[token]
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), gradients(model)


def packed(model: nn.Module, items: dict[int, Item], budget: int) -> tuple[float, dict[str, Tensor]]:
    model.zero_grad()
    total = 0.0
    for pack in packs_of(items, budget):
        found = Scorer(model)(tree_of(pack)).logprobs
        loss = -sum(weight(n, t) * value for n, values in found.items() for t, value in enumerate(values))
        loss.backward()  # type: ignore[union-attr, no-untyped-call]
        total += float(loss.detach())  # type: ignore[union-attr]
    return total, gradients(model)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=25, deadline=None)
@given(items=ITEMS, budget=st.sampled_from([1, 12, 1000]))
def test_packed_trees_equal_turn_by_turn(kind: str, items: dict[int, Item], budget: int) -> None:
    plain, tree = pair(kind)
    loss, wanted = naive(plain, items)
    found_loss, found = packed(tree, items, budget)
    assert found_loss == pytest.approx(loss, rel=1e-5, abs=1e-4)
    assert found.keys() == wanted.keys()
    scale = max(float(gradient.abs().max()) for gradient in wanted.values())
    for name, gradient in wanted.items():
        assert torch.allclose(found[name], gradient, rtol=1e-5, atol=1e-5 * max(1.0, scale)), name


def test_a_chunked_vocabulary_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, tree = pair("tied")
    items = {0: Item((1, 2), (3, 1, 2)), 1: Item((1, 2), (2, 2), temperature=0.7)}
    loss, wanted = naive(plain, items)
    monkeypatch.setattr(answers, "LOGITS_AT_ONCE", 24)
    found_loss, found = packed(tree, items, 1000)
    assert found_loss == pytest.approx(loss, rel=1e-5)
    assert all(torch.allclose(found[name], wanted[name], atol=1e-5) for name in wanted)


def sees(tree: Tree, query: int, key: int, window: int | None) -> bool:
    """By the tree's blocks: the key is in the query's history, or is it, and near enough."""
    block = next(block for block in tree.blocks if block.start <= query < block.end)
    history = [place for start, end in block.prefix for place in range(start, end)]
    path = [*history, *range(block.start, query + 1)]
    return key in (path if window is None else path[-window:])


@given(ITEMS, st.sampled_from([None, 1, 3]))
def test_the_mask_is_ancestors_and_oneself(items: dict[int, Item], window: int | None) -> None:
    tree = tree_of(items)
    table = explicit(tree, window)
    wanted = [[sees(tree, q, k, window) for k in range(len(tree))] for q in range(len(tree))]
    assert table.tolist() == wanted


def random_heads(length: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(length)
    return torch.randn(1, 4, length, 8), torch.randn(1, 2, length, 8), torch.randn(1, 2, length, 8)


@given(ITEMS, st.sampled_from([None, 3]))
def test_blocks_attend_as_the_explicit_mask_says(items: dict[int, Item], window: int | None) -> None:
    tree = tree_of(items)
    query, key, value = random_heads(len(tree))
    wide = [tensor.repeat_interleave(2, 1) for tensor in (key, value)]
    wanted = scaled_dot_product_attention(query, *wide, attn_mask=explicit(tree, window))
    found = by_block(query, key, value, Layout(tree, torch.device("cpu")), window, None)
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_with_this_rule_is_the_explicit_mask(window: int | None) -> None:
    tree = tree_of({0: Item((1, 2), (3, 3)), 1: Item((1, 2), (2, 1)), 2: Item((1, 2, 2, 1), (1,)), 3: Item((3,), (1,))})
    query, key, value = random_heads(len(tree))
    rule = mask_mod(torch.from_numpy(tree.ends), torch.from_numpy(tree.depths), window)
    blocks = create_block_mask(rule, None, None, len(tree), len(tree), "cpu")
    found = flex_attention(query, key, value, block_mask=blocks, enable_gqa=True)
    wide = [tensor.repeat_interleave(2, 1) for tensor in (key, value)]
    wanted = scaled_dot_product_attention(query, *wide, attn_mask=explicit(tree, window))
    assert isinstance(found, Tensor)
    assert torch.allclose(found, wanted, atol=1e-5)
    layout = Layout(tree, torch.device("cpu"))
    assert torch.equal(layout.whole(window).to_dense(), blocks.to_dense())


LINES_ONLY: dict[str, Callable[[], nn.Module]] = {
    "convolutions": lambda: Lfm2ForCausalLM(Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])),
    "biases by distance": lambda: BloomForCausalLM(BloomConfig(vocab_size=12, hidden_size=16, n_layer=2, n_head=4)),
    "capped scores": lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, head_dim=4, final_logit_softcapping=None)),
}


@pytest.mark.parametrize("kind", LINES_ONLY)
def test_a_model_that_cannot_read_trees_is_trained_line_by_line(kind: str) -> None:
    torch.manual_seed(3)
    model: Any = LINES_ONLY[kind]().eval()
    before = model.config._attn_implementation
    assert not read_trees(model)
    assert (model.config._attn_implementation, Scorer(model).branches) == (before, False)
    items = {0: Item((1, 2), (3, 1, 2)), 1: Item((1, 2), (2, 2)), 2: Item((1, 2, 3, 1, 2), (1,), temperature=0.7)}
    loss, wanted = naive(model, items)
    packs = packs_of(items, 1000, Scorer(model).branches)
    model.zero_grad()
    values = [Scorer(model)(tree_of(pack)).logprobs for pack in packs]
    total = -sum(weight(n, t) * v for found in values for n, row in found.items() for t, v in enumerate(row))
    total.backward()  # type: ignore[union-attr, no-untyped-call]
    assert float(total.detach()) == pytest.approx(loss, rel=1e-5)  # type: ignore[union-attr]
    assert all(torch.allclose(value, wanted[name], atol=1e-4) for name, value in gradients(model).items())


def test_what_tree_attention_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="softcap"):
        tree_attention(nn.Identity(), *random_heads(2), None, softcap=30.0)
