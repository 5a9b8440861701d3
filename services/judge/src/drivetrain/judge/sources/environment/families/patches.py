"""Edits that did not apply."""

from drivetrain.judge.sources.environment.families.rule import Rule, rule

PATCHES: tuple[Rule, ...] = (
    rule(
        "patch",
        "patch",
        r"^.*(?:patch (?:does not apply|failed)|hunk #?\d* ?failed|hunks? failed|corrupt patch|malformed patch|"
        r"garbage in patch|invalid patch|invalid context|failed to find (?:expected|context)|"
        r"only garbage was found|补丁未应用|不能打开补丁|补丁(?:失败|损坏|应用失败)).*$",
        where="anywhere",
    ),
    rule(
        "replacement",
        "patch",
        r"^.*(?:no match(?:es)? found for (?:old|replacement|the)|(?:string to replace|old_?str(?:ing)?|"
        r"search (?:block|string|text)|"
        r"target text)\b.{0,60}(?:not found|did not appear|not unique|no match|must (?:be unique|occur))|"
        r"must occur exactly once|found multiple (?:matches|occurrences)|multiple matches|has not been read|"
        r"file has (?:been modified|changed) since|没有找到要替换的|未找到要替换的|替换内容不唯一).*$",
    ),
    rule(
        "merge", "patch", r"^(?:CONFLICT \(.*|Automatic merge failed.*|冲突[（(].*|自动合并失败.*)$", where="anywhere"
    ),
)
