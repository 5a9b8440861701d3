"""The page on harnesses, written from their adapters: `python -m drivetrain.common.harnesses > docs/harnesses.md`."""

from collections.abc import Iterator, Mapping

from drivetrain.common.harnesses.declaration import Harness
from drivetrain.common.harnesses.documents import written
from drivetrain.common.harnesses.filling import Values, fill_connection

EXAMPLE: Values = {
    "proxy_url": "http://127.0.0.1:8411",
    "key": "local",
    "model": "default",
    "context": 32_768,
    "reply": 4_096,
    "home": "~",
    "work": ".",
    "instruction": "",
    "command": "",
}
_HEAD = """# Harnesses

Three lines connect an agent to Drivetrain:

```bash
drivetrain up                          # or the proxy of your team: --proxy URL --key KEY --model POLICY below
drivetrain connect NAME                # prints the settings of a harness
drivetrain connect NAME --write        # puts them into its files, with a backup; --undo takes them back
```

`drivetrain harness list` says which harnesses are known and which are on this machine, `drivetrain harness install
NAME` brings the tested version into a folder of Drivetrain's own, and `drivetrain harness check NAME` proves one
round trip. `drivetrain run tasks/ --harness NAME` lets one work on [tasks](tasks.md).

## What was seen to work

Each harness wrote a file with its shell tool and then said that it was done, through the real proxy, in front of an
engine that follows a script. Every model call became a turn whose prompt and reply are the tokens that the engine was
given and sampled; the second turn continues the first, and what the tool said is the first one's next state. The same
after a 500, a connection that was reset, and a reply that broke off in its middle, unless the last column says
otherwise (`tests/harnesses`; `make test` runs five, `make test-all` all that install).

{table}

A harness without a session of its own is followed by its history: see [the proxy](../services/proxy/README.md). Two
conversations with the same beginning can be told apart by a path (`http://…/s/<session>/v1`), a header or a key.

## Settings of each
{settings}
## To add one

One file in `libs/common/src/drivetrain/common/harnesses/adapters/`, or in a folder of yours (`--harnesses FOLDER`,
the orchestrator's `harness_folders`). No code:

```toml
name = "mine"                                        # as the file
title = "My agent"
install.command = "pip install --target {{folder}} my-agent"
install.path = ["bin"]                               # folders in {{folder}} that belong in PATH
install.version = ["my-agent", "--version"]

[dialects.chat]                                      # chat, responses, messages or gemini; the first is the default
base_url = "{{proxy_url}}/v1"

[connect]                                            # what points it at the proxy, whoever uses it
environment = {{ OPENAI_BASE_URL = "{{base_url}}", OPENAI_API_KEY = "{{key}}" }}

[run]                                                # how it works on an instruction by itself
argv = ["my-agent", "--model", "{{model}}", "{{instruction}}"]
```

Settings files are `[[connect.files]]` with a `path` in `{{home}}`, a `format` (json, toml, yaml, env) and their
`content`. Strings may use `{{proxy_url}}`, `{{key}}`, `{{model}}`, `{{context}}`, `{{reply}}`, `{{home}}`,
`{{work}}`, `{{instruction}}`, `{{command}}`, and what the dialect declares; a literal brace is doubled. An exit
status other than those of `run.end.statuses` (0) is a crash."""
SEEN: Mapping[str, str] = {
    "claude-code": "session and sub-agents by its headers",
    "codex": "session and sub-agents by its headers; its apply_patch and namespaces are functions for the model",
    "pi": "followed by its history; in Responses by its header",
    "openclaw": "its last message changes with each request: what the model saw stays; in Messages a reply that breaks "
    "off ends the run",
    "mini-swe-agent": "followed by its history; does not stream",
    "opencode": "session by its header",
    "terminus-2": "session by its header; JSON in plain text, without tools",
    "openhands": "session by its cache key; does not stream",
    "qwen-code": "followed by its history; a reply that breaks off ends the run",
    "gemini-cli": "followed by its history; sends top_p and top_k, which makes a person's turns inexact; a reply that "
    "breaks off ends the run",
    "aider": "edits in plain text, without tools; the words of its commits are beside the work",
    "browser-use": "each step is a conversation of its own; its grammar makes a reply inexact",
    "hermes": "followed by its history; goes on from a reply that breaks off as another conversation",
    "nanobot": "followed by its history; a reply that breaks off ends the run",
    "cline": "followed by its history; a reply that breaks off ends the run",
}


def page(harnesses: Mapping[str, Harness]) -> str:
    """The page as Markdown."""
    settings = "".join(_section(harness) for harness in harnesses.values() if harness.name != "command")
    return _HEAD.format(table="\n".join(_table(harnesses)), settings=settings)


def _table(harnesses: Mapping[str, Harness]) -> Iterator[str]:
    yield "| Harness | Version | Dialects | |"
    yield "|---|---|---|---|"
    for harness in harnesses.values():
        if harness.name in SEEN:
            dialects = ", ".join(harness.dialects)
            yield f"| {harness.title} | {harness.install.tested} | {dialects} | {SEEN[harness.name]} |"
    others = [harness.title for harness in harnesses.values() if harness.name not in (*SEEN, "command")]
    yield ""
    yield f"Not driven by a test yet: {', '.join(others)}."


def _section(harness: Harness) -> str:
    filled = fill_connection(harness, EXAMPLE)
    parts = [f"\n### {harness.title}: `drivetrain connect {harness.name}`\n"]
    parts += [harness.note + "\n"] if harness.note else []
    for file in filled.files:
        form = "" if file.format == "env" else file.format
        parts.append(f"`{file.path}`\n```{form}\n{written(file.format, file.content).rstrip()}\n```\n")
    shell = [f"export {name}={value}" for name, value in filled.environment.items()]
    shell += [" ".join(command) for command in filled.commands]
    parts += ["```bash\n" + "\n".join(shell) + "\n```\n"] if shell else []
    return "\n".join(parts)
