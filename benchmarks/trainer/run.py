"""What token trees save: one forward and backward pass over all turns of growing conversations, packed as the trainer
packs them, against the same turns one by one, by the same model in the same run, on one thread and in processor time.
Writes `benchmarks/results/trainer.json`.

The naive way runs each turn's whole prompt and response through the model by itself, unpadded, and computes the
vocabulary for response tokens only, as the packed one does: the difference is what is shared.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.loop.run import machine
from benchmarks.trainer.sessions import Shape, items
from drivetrain.trainer.model.policy import read_trees
from drivetrain.trainer.model.scoring import Scorer
from drivetrain.trainer.tree.packing import packs_of
from drivetrain.trainer.tree.tree import Item, tree_of

TARGET = Path(__file__).parents[1] / "results" / "trainer.json"
SHAPES = {"1turn": Shape(8, 1), "8turn": Shape(2, 8), "20turn": Shape(1, 20), "32turn": Shape(1, 32)}
VOCABULARY = 2048


def main() -> None:
    """Measure, print the table, write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trainer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="each way is timed so often, in turn; the median counts")
    parser.add_argument("--budget", type=int, default=4096, help="tokens of a pack")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    plain, packed = models()
    found = {}
    for name, shape in SHAPES.items():
        found[name] = measured(plain, packed, shape, arguments)
        print(name, found[name], file=sys.stderr)
    Console(width=120).print(table(found))
    figures = {f"{figure}_{name}": round(value, 4) for name, one in found.items() for figure, value in one.items()}
    report = {
        "benchmark": "trainer",
        "machine": machine(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(["python -m benchmarks.trainer", *sys.argv[1:]]),
        "figures": figures,
    }
    TARGET.write_text(json.dumps(report, indent=2) + "\n")


def models() -> tuple[Any, Any]:
    """One random model twice: as transformers has it, and reading trees."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
    )
    plain, packed = LlamaForCausalLM(config).eval(), LlamaForCausalLM(config).eval()
    packed.load_state_dict(plain.state_dict())
    if not read_trees(packed):
        raise SystemExit("the model reads no trees: this says nothing")
    return plain, packed


def measured(plain: Any, packed: Any, shape: Shape, arguments: argparse.Namespace) -> dict[str, float]:
    """Trained tokens a second of both ways, their ratio, and how far their gradients are apart."""
    turns = items(shape, VOCABULARY)
    alone = [{number: item} for number, item in turns.items()]
    together = packs_of(turns, arguments.budget)
    seconds: dict[str, list[float]] = {"naive": [], "packed": []}
    for _ in range(arguments.rounds):
        seconds["naive"].append(timed(lambda: gradients(plain, alone)))
        seconds["packed"].append(timed(lambda: gradients(packed, together)))
    pairs = zip(plain.parameters(), packed.parameters(), strict=True)
    largest = max(float(p.grad.abs().max()) for p in plain.parameters())
    rates = {way: shape.trained / statistics.median(times) for way, times in seconds.items()}
    return {
        "naive_tokens_per_s": rates["naive"],
        "packed_tokens_per_s": rates["packed"],
        "vs_naive": rates["packed"] / rates["naive"],
        "computed_share": sum(len(tree_of(pack)) for pack in together) / sum(len(i.ids) for i in turns.values()),
        "gradient_apart": max(float((a.grad - b.grad).abs().max()) for a, b in pairs) / largest,
    }


def gradients(model: Any, packs: list[dict[int, Item]]) -> None:
    """The gradient of all responses' log-likelihood."""
    model.zero_grad(set_to_none=True)
    scorer = Scorer(model)
    for pack in packs:
        (-torch.cat(list(scorer(tree_of(pack)).logprobs.values())).sum()).backward()  # type: ignore[no-untyped-call]


def timed(work: Callable[[], None]) -> float:
    """Seconds of processor time that it took: what else runs on the machine does not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


def table(found: dict[str, dict[str, float]]) -> Table:
    """One line a shape."""
    made = Table("conversations", *next(iter(found.values())), title="Packed trees", title_justify="left")
    for name, figures in found.items():
        made.add_row(name, *(f"{value:.3g}" for value in figures.values()))
    return made


if __name__ == "__main__":
    main()
