"""The network: status codes, names that do not resolve, servers that do not answer, pages that are not there."""

from drivetrain.judge.sources.environment.families.rule import Rule, rule

WEB: tuple[Rule, ...] = (
    rule(
        "connection",
        "absent",
        r"^.*(?:connection (?:refused|reset|timed out|aborted)|connect(?:ion)? ECONNREFUSED|couldn't connect|"
        r"failed to connect|could not resolve host|name or service not known|temporary failure in name resolution|"
        r"ENOTFOUND|network is unreachable|no route to host|连接被拒绝|无法连接|无法解析).*$",
    ),
    rule("browser", "absent", r"^.*\bnet::ERR_\w+.*$", where="anywhere"),
    rule(
        "status refused",
        "refused",
        r"^.*\b(?:HTTP(?:/[\d.]+)?|status(?: code)?|error|错误)[:：]? ?(?:401|403|407|429)\b.*$",
    ),
    rule("status", "absent", r"^.*\b(?:HTTP(?:/[\d.]+)?|status(?: code)?|error|错误)[:：]? ?(?:404|410)\b.*$"),
    rule("status", "crash", r"^.*\b(?:HTTP(?:/[\d.]+)?|status(?: code)?|error|错误)[:：]? ?(?:4\d\d|5\d\d)\b.*$"),
    rule(
        "status line", "absent", r"^(?:4\d\d|5\d\d) (?:Bad|Not|Unauth|Forbid|Gone|Too|Internal|Service|Gateway)\w*.*$"
    ),
    rule(
        "page",
        "absent",
        r"^(?:page title|title|页面标题|标题)[:：] ?(?:.*\b)?(?:404|403|50\d|error|not found|access denied|"
        r"this site can't be reached|页面不存在|找不到|无法访问|出错).*$",
        where="anywhere",
    ),
    rule(
        "page",
        "absent",
        r"^- heading .*(?:no such page|page not found|not be found|doesn't exist|does not exist|页面不存在|"
        r"找不到(?:该|此)?页面).*$",
        where="anywhere",
    ),
)
