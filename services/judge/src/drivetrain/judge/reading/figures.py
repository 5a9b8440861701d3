"""Figures in a text: numbers, weekdays and parts of the day, each in one spelling."""

import re
from collections.abc import Sequence

from drivetrain.judge.text import words_of

_NUMBERS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "一": "1", "二": "2", "两": "2", "三": "3", "四": "4", "五": "5",
    "六": "6", "七": "7", "八": "8", "九": "9", "十": "10",
}  # fmt: skip
_DAYS = {
    "monday": "mon", "tuesday": "tue", "wednesday": "wed", "thursday": "thu", "friday": "fri", "saturday": "sat",
    "sunday": "sun", "一": "mon", "二": "tue", "三": "wed", "四": "thu", "五": "fri", "六": "sat", "日": "sun",
    "天": "sun",
}  # fmt: skip
_PARTS = {
    "am": "am", "morning": "am", "pm": "pm", "afternoon": "pm", "evening": "pm", "tonight": "pm", "早上": "am",
    "上午": "am", "早晨": "am", "凌晨": "am", "下午": "pm", "晚上": "pm", "傍晚": "pm", "晚": "pm",
}  # fmt: skip
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_WEEK = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_HAN_NUMBER = re.compile(r"[零一二两三四五六七八九十百千]{1,6}(?=[个位岁年月日号点分块元斤米次句字条页天])")
_PART = re.compile("|".join(part for part in _PARTS if not part.isascii()))


def figures(text: str, words: Sequence[str] | None = None) -> frozenset[str]:
    """Numbers, weekdays and parts of the day in a lower-case text, each in one spelling; `words` are its words, where
    they are known."""
    words = words_of(text) if words is None else words
    found = {match.replace(",", "") for match in _DIGITS.findall(text)}
    found |= {table[word] for word in words if word.isascii() for table in (_NUMBERS, _DAYS, _PARTS) if word in table}
    found |= {_DAYS[day] for day in _WEEK.findall(text)}
    found |= {_NUMBERS.get(number, number) for number in _HAN_NUMBER.findall(text)}
    return frozenset(found | {_PARTS[part] for part in _PART.findall(text)})
