"""Random conversations as harnesses hold them, over real tokenizers, with a model that says what it is told to."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.common.events import Message
from drivetrain.common.identity import new_id
from drivetrain.common.tokens import pack_ids
from drivetrain.proxy.conversations.lineage import candidates, digest_of, extend, rolling
from drivetrain.proxy.prompts.plain import plain
from drivetrain.proxy.prompts.prompt import Prompt, build
from drivetrain.proxy.prompts.templates import Template
from drivetrain.proxy.replies.reader import ReplyReader
from drivetrain.proxy.turns import KnownTurn, Past

FAMILIES = ("qwen3", "qwen2_5", "llama3_1", "gemma3", "deepseek_v3", "mistral_nemo")
FOLDER = Path(__file__).parent.parent / ".cache" / "tokenizers"
WORDS = [
    *("the", "model's", "answer,", "42;", "def f(x):", "x\n\n\ttab", "—", "naïve", "café", "Ünïcödé", "你好，世界"),
    *("こんにちは", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪", "e\u0301", "a\u0308\u0323", "नमस्ते", "שלום", "﷽", "𝔘𝔫𝔦"),
    *("{'json': [1, 2]}", "</div>", "&amp;", "1_000_000", "  two  spaces", "…"),
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Führt etwas aus",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    }
    for name in ("read", "write")
]


def load(family: str) -> Template:
    """A family's template; says how to fetch it when it is missing."""
    folder = FOLDER / family
    assert folder.is_dir(), f"{folder} is missing: run scripts/setup-tokenizers.sh"
    return Template(str(folder))


def words(rng: random.Random, most: int = 12) -> str:
    """Text without white space around it."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most))).strip()


@dataclass
class Asked:
    """One request: what the proxy made of it, and the reference to compare with."""

    messages: list[Message]
    prompt: Prompt
    past: Past | None


@dataclass
class Talk:
    """One harness and its proxy. `say` is what the model samples next; the proxy reads it from token ids."""

    template: Template
    rng: random.Random
    tools: list[dict[str, Any]] = field(default_factory=list)
    pasts: dict[str, Past] = field(default_factory=dict)

    def ask(self, messages: Sequence[Message]) -> Asked:
        """The prompt that the proxy sends to the engine."""
        sent = list(messages)
        found = (self.pasts.get(digest) for digest in candidates(rolling("", sent), sent))
        past = next((past for past in found if past is not None), None)
        same = past is not None and past.known.tools == digest_of(self.tools)
        return Asked(sent, build(self.template, sent, self.tools, past, same_tools=same), past)

    def say(self, asked: Asked, ids: list[int]) -> Message:
        """The model samples these; the reply as the harness receives it, in pieces of any size."""
        reader = ReplyReader(self.template, new_id(), asked.prompt.ids, self.tools)
        at = 0
        while at < len(ids):
            size = self.rng.randint(1, 4)
            reader.feed(ids[at : at + size])
            at += size
        reader.finish()
        line = extend(rolling("", asked.messages)[-1], reader.message)
        self.pasts[line] = Past(known=self._known(asked, line, reader), prompt=asked.prompt.ids, response=ids)
        return reader.message

    def reference(self, messages: Sequence[Message]) -> list[int]:
        """What vLLM renders: transformers' own application of the template."""
        return list(
            self.template.tokenizer.apply_chat_template(
                [plain(message) for message in messages],
                tools=self.tools or None,
                add_generation_prompt=True,
                return_dict=False,
            )
        )

    def sampled(self, text: str, *, split: bool = False, closed: bool = True) -> list[int]:
        """Token ids for a reply's text; `split` samples each of its characters alone."""
        parts = list(text) if split else [text]
        end = [self.template.stop_ids[-1]] if closed else []
        return [token for part in parts for token in self.template.encode(part)] + end

    def _known(self, asked: Asked, line: str, reader: ReplyReader) -> KnownTurn:
        parent = asked.past.known.turn if asked.past and asked.prompt.shared else None
        return KnownTurn(
            turn=new_id(),
            parent=parent,
            tenant="local",
            policy="default",
            session="s",
            rollout=None,
            prompt_ids=pack_ids(asked.prompt.new_ids),
            response_ids=pack_ids(reader.ids),
            messages=[],
            reply=reader.message,
            line=line,
            depth=len(asked.messages) + 1,
            tools=digest_of(self.tools),
            rendered=asked.prompt.rendered,
            kind="main",
            trainable=True,
            finished_at=0.0,
        )


def calls_tools(template: Template) -> bool:
    """Whether this family writes tool calls in a form that replies are read in."""
    return template.renders_tools and "<tool_call>" in str(template.tokenizer.chat_template)


def reply_text(rng: random.Random, *, tools: bool, reasoning: bool) -> str:
    """A reply as a well-trained model writes it."""
    text = words(rng)
    if tools:
        calls = [{"name": rng.choice(("read", "write")), "arguments": {"text": words(rng, 4)}} for _ in range(2)]
        blocks = [f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls]
        text = "\n".join([text, *blocks[: rng.randint(1, 2)]])
    return f"<think>\n{words(rng)}\n</think>\n\n{text}" if reasoning else text


def world(rng: random.Random, reply: Message) -> list[Message]:
    """What comes back after a reply: results of its calls, else a person's words."""
    calls = reply.get("tool_calls") or []
    if not calls:
        return [{"role": "user", "content": words(rng)}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": words(rng)} for call in calls]


def start(rng: random.Random, *, system: bool = True) -> list[Message]:
    """The first messages of a conversation."""
    head: list[Message] = [{"role": "system", "content": words(rng)}] if system else []
    return [*head, {"role": "user", "content": words(rng)}]


def append_only(talk: Talk, turns: int, *, tools: bool, reasoning: bool, system: bool = True) -> Iterator[Asked]:
    """A conversation in which the harness sends back exactly what it received, and the model writes as trained."""
    messages = start(talk.rng, system=system)
    for _ in range(turns):
        asked = talk.ask(messages)
        yield asked
        text = reply_text(talk.rng, tools=tools and talk.rng.random() < 0.6, reasoning=reasoning)
        reply = talk.say(asked, talk.sampled(text))
        messages = [*messages, reply, *world(talk.rng, reply)]
