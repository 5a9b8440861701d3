"""What a reply did: its calls, whatever form its harness gives them, and what kind of act each is."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from drivetrain.common.events import Message
from drivetrain.judge.text import bounded, content_text

Act = Literal["look", "check", "act"]
"""look: reads something, changes nothing. check: runs tests or a checker. act: anything else."""

_LOOKING_TOOLS = re.compile(
    r"(?:.*[_.-])?(?:read|view|cat|open_file|ls|list|glob|grep|find|search|look|snapshot|screenshot|"
    r"get|fetch|show|describe|"
    r"inspect|status|head|scroll|wait)(?:[_.-].*)?|(?:read|list|find|search|get|view)[A-Z]\w*|Read|Glob|Grep|LS",
)
_LOOK = re.compile(
    r"(?:cat|head|tail|less|more|ls|dir|tree|find|fd|grep|egrep|fgrep|rg|ag|ack|stat|file|wc|pwd|which|type|whereis|"
    r"command -[vV]|hash|du|df|id|whoami|ps|pgrep|lsof|ss|netstat|env|printenv|date|uname|diff|cmp|test|\[|getent|"
    r"echo|printf|sort|uniq|cut|tr|jq|xxd|od|strings|nl|column|man|help|sed -n|awk|true|"
    r"git (?:status|log|diff|show|branch|blame|grep|ls-files|rev-parse|remote -v|stash list)|"
    r"docker (?:ps|images|logs|inspect)|"
    r"kubectl (?:get|describe|logs)|pip (?:show|list|freeze|index)|npm (?:ls|view|outdated)|"
    r"cargo (?:tree|search)|go (?:list|env|version)|"
    r"sqlite3 \S+ [\"']?(?:\.schema|\.tables|pragma|explain)|\S+ --(?:version|help))(?=$|[\s;|&>)\"'])",
    re.IGNORECASE,
)
_CHECK = re.compile(
    r"(?:(?:\w+=\S+ |time |timeout \S+ |uv run |poetry run |npx |pnpm exec |bundle exec )*"
    r"(?:(?:python3? -m )?(?:pytest|unittest|nose2|mypy|pyright|flake8|pylint|doctest)|tox|nox|"
    r"ruff check|ruff format --check|"
    r"(?:npm|pnpm|yarn|bun|deno)(?: run)? (?:test|t|lint|typecheck|check)|jest|vitest|mocha|ava|"
    r"node --test|eslint|tsc --noEmit|"
    r"cargo (?:test|nextest|check|clippy)|go (?:test|vet)|make (?:test|check|lint)|mvn(?: -\S+)* (?:test|verify)|"
    r"(?:\./)?gradlew? (?:test|check)|ctest|rspec|phpunit|dotnet test|swift test|mix test|"
    r"stack test))(?=$|[\s;|&>)\"'])"
)
_HARMLESS = re.compile(r"(?:cd|export|set|source|\.|sleep|pushd|popd|clear|exit)(?=$|[\s;])")
_PARTS = re.compile(r"\s*(?:&&|\|\||;|\n|\|&?)\s*")
_WRITES = re.compile(r"(?<![<>2&\d])>>?(?!&|\s*/dev/null)|<<|\btee\b|\s-i\b")
_FENCED = re.compile(r"```(?:\w*bash\w*|sh|shell|\w+_command)\n(.*?)```", re.DOTALL)
_KEYS = ("command", "cmd", "keystrokes", "script", "code", "input")


@dataclass(frozen=True)
class Call:
    """One call: the tool, what it was given, and its id, where the harness has one."""

    tool: str
    given: str
    id: str | None = None
    command: bool = False

    @property
    def act(self) -> Act:
        if not self.command:
            return "look" if _LOOKING_TOOLS.fullmatch(self.tool) else "act"
        parts = [part for part in _PARTS.split(self.given.strip()) if part and not _HARMLESS.match(part)]
        if not parts or _WRITES.search(self.given):
            return "act"
        if any(_CHECK.match(part) for part in parts) and all(_CHECK.match(part) or _LOOK.match(part) for part in parts):
            return "check"
        return "look" if all(_LOOK.match(part) for part in parts) else "act"


def calls_of(reply: Message) -> tuple[Call, ...]:
    """The calls of a reply: tool calls, commands in a fenced block, or a JSON object with commands in its text."""
    made = tuple(_structured(reply))
    return made or tuple(_written(bounded(content_text(reply))))


def _structured(reply: Message) -> Iterator[Call]:
    calls = reply.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            given, command = _given(function.get("arguments"))
            yield Call(str(function.get("name")), given, call.get("id"), command)


def _written(text: str) -> Iterator[Call]:
    for block in _FENCED.findall(text):
        yield Call("shell", block.strip(), command=True)
    if text.lstrip().startswith("{"):
        given, command = _given(text)
        if command:
            yield Call("shell", given, command=True)


def _given(arguments: object) -> tuple[str, bool]:
    """What a call was given, as text, and whether it is a command for a shell."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments), False
    if not isinstance(value, dict):
        return str(arguments), False
    if isinstance(steps := value.get("commands"), list):
        lines = [str(step.get("keystrokes", "")) if isinstance(step, dict) else str(step) for step in steps]
        return "\n".join(line.strip() for line in lines if line.strip()), True
    for key in _KEYS:
        if isinstance(given := value.get(key), str):
            return given, True
        if isinstance(given, list):
            return " ".join(str(part) for part in given if part not in ("bash", "sh", "-c", "-lc")), True
    return json.dumps(value, ensure_ascii=False, sort_keys=True), False
