"""Failures that were looked for: a person asks whether something is there, or wants to see that it is refused."""

import re
from collections.abc import Sequence

from drivetrain.judge.sources.environment.families import Kind

_FAILS = (
    r"(?:refus\w+|reject\w+|den(?:y|ies|ied)|forbid\w*|forbidden|block(?:s|ed)?|fail(?:s|ed|ing)?|"
    r"error(?:s|ed)?|throws?|raises?|"
    r"crash(?:es|ed)?|break(?:s)?|broken|red|40[0-9]|4\d\d|50[0-9]|gone|closed|down|offline|"
    r"unreachable|absent|removed|deleted|"
    r"not (?:be )?(?:there|reachable|installed|listed|found|exist|work|run|start|allowed|possible|"
    r"accept\w*|answer\w*|listening)|"
    r"no longer|nothing|nobody|n't|impossible|invalid)"
)

EXPECTED: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:verify|check|confirm|prove|show|demonstrate|see|make sure|ensure|test|assert|"
        r"let me know)\b[^.?!\n]{0,60}?\b(?:that|if|"
        r"whether|how)\b[^.?!\n]{0,80}\b" + _FAILS + r"\b",
        r"\b(?:must|should|has to|have to|ought to|supposed to|is to|expect\w*|believe\w*)\b[^.?!\n]{0,60}\b"
        + _FAILS
        + r"\b",
        r"\b(?:nothing|nobody|none)\b[^.?!\n]{0,20}\b(?:should|must|may)\b",
        r"\bwhat happens\b|\bwhat (?:does|do|would|will|did) [^?\n]{1,80}\b(?:do|return|print|give|output|"
        r"produce)\b|\bhow (?:does|do|would|will)\b.{0,40}\b(?:react|"
        r"behave|handle|fail|respond)",
        r"\b(?:write|add|create|start with) (?:a |the |one )?(?:failing|red|broken) test|\bsee (?:it|them|"
        r"the \w+|what) (?:red|fail\w*|break\w*)\b",
        r"\breproduc\w+\b(?! (?:and|then|it and) (?:fix|repair))",
        r"\bwhich\b[^.?!\n]{0,40}\b(?:fail|pass|work|resolve|answer|compile|exist|are (?:red|broken|missing))\b",
        r"\bwhich (?:of (?:these|those|the)|ones?|hosts|tests|files)\b",
        r"(?:会怎么?样|会发生什么|会不会|会如何|有什么反应|什么结果|试(?:一下|试看|试).{0,12}(?:坏|错|空)|哪些.{0,10}(?:不过|失败|没过|不通|通不过|报错))",
        r"(?:确认|验证|检查|看看|看一下|看下|证明|保证).{0,24}(?:没有|不存在|已经?不|不能|不可|不了|拒绝|失败|报错|下线|关闭|关掉|删|40\d|50\d|访问不|打不开)",
        r"(?:应该|应当|必须|一定)(?:会|要|是|返回|得)?.{0,10}(?:拒绝|失败|报错|抛|40\d|50\d|不存在|不通|关闭|下线|没有|不能|空)",
        r"(?:是不是|是否|有没有).{0,20}(?:下线|关闭|关了|删|停|坏|失败|挂)|(?:还|还能)?(?:在|活着|开着|通)(?:吗|不|么)|没有就算了|复现",
    )
)
"""All kinds of failures are an answer to these."""

ASKED: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:^|[.!?\n,;] ?)(?:and |so |but |ok,? |hey,? |please )?(?:is|are|was|were) (?!it (?:possible|"
        r"ok)|you)[^?\n]{1,80}\?",
        r"(?:^|[.!?\n,;] ?)(?:and |so |but |ok,? |hey,? )?(?:do|does|did|has|have) (?!you (?:mind|"
        r"know))[^?\n]{1,80}\?",
        r"(?:^|[.!?\n,;] ?)(?:is|are) (?:there|any\w*|the \w+|\S+) [^.?!\n]{0,60}(?:installed|there|"
        r"available|running|up|listening|around|left|on)\b",
        r"\b(?:if|whether) (?:there (?:is|are)|any\w*|it|\S+) [^.?!\n]{0,40}(?:exists?|is|are|has|have|"
        r"installed|runs?|available)\b|\bif (?:so|not|any)\b",
        r"\b(?:any (?:mention|sign|trace|use|reference)|anything|anyone)\b",
        r"(?:有没有|是否|是不是|有无|能不能|装没装|在不在|存不存在|有.{0,16}(?:吗|么)|在.{0,10}(?:吗|么)|装了.{0,10}(?:吗|么|没))",
        r"(?:看看|看下|看一下|查查|查一下|查下|搜|找找).{0,20}(?:有没有|有无|是否|在不在|还有)",
    )
)
"""That something is absent is an answer to these."""


def sought(kind: Kind, asked: Sequence[str], told: str) -> bool:
    """Whether a failure of this kind answers what was asked last, or what the reply said it was after."""
    last = asked[-1][-2000:] if asked else ""
    if any(pattern.search(text) for pattern in EXPECTED for text in (last, told[:2000])):
        return True
    return kind == "absent" and any(pattern.search(last) for pattern in ASKED)
