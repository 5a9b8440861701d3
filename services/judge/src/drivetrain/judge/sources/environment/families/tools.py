"""Tools that are called with arguments: what they print when they refuse, and the fields of JSON that say so."""

import re
from typing import Any, NamedTuple

from drivetrain.judge.sources.environment.families.rule import Kind, Rule, rule

_MISSING = (
    r"(?:not (?:found|exist|available)|no such|does not exist|doesn't exist|unknown|不存在|未找到|找不到|没有找到)"
)

_SAID: tuple[Rule, ...] = (
    rule(
        "tool",
        "usage",
        r"^\s*(?:unknown|no such|unsupported|unrecognized) (?:tool|function|method|command|action)\b.*$",
    ),
    rule(
        "tool",
        "usage",
        r"^.*\b(?:tool|function)\b.{0,60}\b(?:not found|does not exist|is not (?:available|registered|allowed))\b.*$",
    ),
    rule(
        "arguments",
        "usage",
        r"^.*\b(?:invalid|missing|bad|unexpected|malformed) (?:required )?(?:arguments?|parameters?|"
        r"params|inputs?|json|field)\b.*$",
    ),
    rule(
        "arguments",
        "usage",
        r"^.*(?:(?:parameters?|arguments?|field|参数|字段).{0,40}(?:is required|must be|错误|无效|缺失|必填|必须)|"
        r"缺少(?:必要|必需|必填)?(?:的)?参数).*$",
    ),
    rule("named", "crash", r"^\s*(?:\w+ ){1,3}error(?: -?\d+)?[:：].*$"),
    rule("marked", "crash", r"^\s*(?:<error>|<tool_use_error>|\[error\]|❌|tool (?:call )?(?:failed|error)).*$"),
    rule(
        "said",
        "crash",
        r"^\s*(?:error|failure|failed|exception|错误|失败|异常|出错(?:了)?|报错)(?: (?:executing|running|calling|"
        r"in)\b[^:：\n]{0,80})? ?[:：].*$",
    ),
    rule(
        "missing",
        "absent",
        r"^\s*(?:(?:no(?! (?:results?|errors?|problems?|issues?|warnings?|changes?|matches|output|"
        r"events?)\b)|there is no|there are no|could not find|couldn't find|cannot find|can't find)\b|"
        r"未知的?|"
        r"没有(?:这个|该|此)|找不到|未找到|不存在) ?.{0,60}(?:\b(?:with|named|called|matching) (?:id|name|the|key|"
        r"that)\b|\bid\b|[:：]).*$",
    ),
    rule("missing", "absent", r"^\s*[^\n]{1,80}?" + _MISSING + r"[.。!！]?$"),
    rule(
        "could not",
        "crash",
        r"^\s*(?:(?:i |we )?(?:could not|couldn't|cannot|can't|unable to|failed to|not (?:allowed|"
        r"permitted|possible|authori[sz]ed)|"
        r"denied|refused|rejected|declined|forbidden|unauthori[sz]ed|invalid|无法|不能|禁止|拒绝|未授权|没有权限|权限不足|"
        r"无效))(?![a-z]).*$",
    ),
    rule("失败", "crash", r"^\s*[^\s\d:：。，,;；、-]{1,12}(?:失败|出错|错误)(?:了)?(?:[:：,，。！!]|$).*$"),
)
TOOLS: tuple[Rule, ...] = tuple(each._replace(where="first") for each in _SAID)
"""What tools say of a call, in the first place."""


class Field(NamedTuple):
    """A field at the top of a JSON result, the values of it that tell of a failure, and of what kind."""

    name: re.Pattern[str]
    failed: re.Pattern[str]
    kind: Kind


def _field(name: str, failed: str, kind: Kind = "crash") -> Field:
    return Field(
        re.compile(rf"(?:{name})\Z", re.IGNORECASE), re.compile(rf"(?:{failed})\Z", re.IGNORECASE | re.DOTALL), kind
    )


FIELDS: tuple[Field, ...] = (
    _field(
        "error|errors|exception|exception_info|error_?message|err",
        r"(?!none|null|false|no error|无|0\b).*" + _MISSING + ".*",
        "absent",
    ),
    _field(
        "error|errors|exception|exception_info|error_?message|err",
        r"(?!(?:none|null|false|no errors?|no|无|0|\{\}|\[\]|)\Z).+",
    ),
    _field("is_?error|failed|timed_?out", "true"),
    _field("success|succeeded|ok|成功", "false"),
    _field("status(?:_?code)?|http_?status|code", "401|403|407", "refused"),
    _field("status(?:_?code)?|http_?status|code", "404|410", "absent"),
    _field("status(?:_?code)?|http_?status|code", r"[45]\d\d"),
    _field(
        "status|state|result|outcome|状态|结果",
        r"(?:error|errored|fail(?:ed|ure)?|declined|rejected|denied|refused|invalid|timeout|aborted|失败|错误|拒绝)",
    ),
    _field("errno|error_?code|err_?code", r"(?!0\Z).+"),
)


def of_field(name: str, value: Any) -> Kind | None:
    """What kind of failure a field tells of, if any."""
    shown = (
        {True: "true", False: "false", None: "null"}.get(value)
        if value is None or isinstance(value, bool)
        else str(value)
    )
    return next((f.kind for f in FIELDS if f.name.match(name) and f.failed.match(shown or "")), None)
