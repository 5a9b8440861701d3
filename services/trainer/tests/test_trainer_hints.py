"""Hints spliced into real token sequences of a real tokenizer."""

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from drivetrain.trainer.samples.hints import NoTeacher, NotSpliced, splice, template_tail

WORDING = "\n\n{hint}"


def render(tokenizer: Any, *messages: dict[str, Any]) -> tuple[int, ...]:
    return tuple(tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, return_dict=False))


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_the_hint_stands_at_the_end_of_the_last_message(tokenizer: Any) -> None:
    prompt = render(tokenizer, user("What is ice?"), {"role": "assistant", "content": "Cold."}, user("And snow?"))
    hinted = splice(tokenizer, prompt, user("And snow?"), "Use one sentence.", WORDING)
    expected = render(
        tokenizer,
        user("What is ice?"),
        {"role": "assistant", "content": "Cold."},
        user("And snow?\n\nUse one sentence."),
    )
    assert tokenizer.decode(hinted) == tokenizer.decode(expected)


def test_the_recorded_tokens_stay_as_they_are(tokenizer: Any) -> None:
    """A prompt that the template would tokenise differently keeps its own ids before and after the hint."""
    odd = tuple(tokenizer.encode("<|im_start|>user\n", add_special_tokens=False))
    odd += tuple(i for letter in "glacier" for i in tokenizer.encode(letter, add_special_tokens=False))
    tail = template_tail(tokenizer, user("glacier"))
    hinted = splice(tokenizer, odd + tail, user("glacier"), "be brief", WORDING)
    assert hinted[: len(odd)] == odd
    assert hinted[-len(tail) :] == tail
    assert tokenizer.decode(hinted[len(odd) : -len(tail)]) == "\n\nbe brief"


def test_a_hint_that_ends_like_the_message_does_not_confuse_the_tail(tokenizer: Any) -> None:
    message = user("Answer in one sentence.")
    hinted = splice(tokenizer, render(tokenizer, message), message, "in one sentence.", WORDING)
    assert "sentence.\n\nin one sentence.<|im_end|>" in tokenizer.decode(hinted)


def test_the_hint_goes_after_a_tool_result_when_that_came_last(tokenizer: Any) -> None:
    tool = {"role": "tool", "tool_call_id": "1", "content": "exit 1"}
    hinted = splice(tokenizer, render(tokenizer, user("run it"), tool), tool, "Read the error.", WORDING)
    assert tokenizer.decode(hinted).endswith("exit 1\n\nRead the error.<|im_end|>\n<|im_start|>assistant\n")


def test_a_prompt_that_ends_otherwise_gets_no_teacher(tokenizer: Any) -> None:
    prompt = (*render(tokenizer, user("hi")), 5)
    with pytest.raises(NotSpliced) as error:
        splice(tokenizer, prompt, user("hi"), "be brief", WORDING)
    assert error.value.reason is NoTeacher.TAIL


def test_without_a_message_there_is_no_place(tokenizer: Any) -> None:
    with pytest.raises(NotSpliced) as error:
        splice(tokenizer, (1, 2), None, "be brief", WORDING)
    assert error.value.reason is NoTeacher.NO_MESSAGE


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('a conversation starts with a user') }}", "hello", "{{ messages[0].content * 2 }}"]
)
def test_a_template_that_hides_the_message_gets_no_teacher(tokenizer: Any, template: str) -> None:
    other = PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer)
    other.chat_template = template
    with pytest.raises(NotSpliced) as error:
        splice(other, (1, 2, 3), {"role": "tool", "content": "x"}, "be brief", WORDING)
    assert error.value.reason is NoTeacher.TEMPLATE
