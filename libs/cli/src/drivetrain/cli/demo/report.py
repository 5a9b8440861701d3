"""The end of the demo in words: a table of before and after, what the loop did, and how to go on from here."""

import json

from rich.console import Console
from rich.table import Table

from drivetrain.cli.demo.evaluate import Heldout, Share
from drivetrain.cli.demo.plots import PLOT_FILE, terminal_plot
from drivetrain.cli.demo.result import RESULT_FILE, Result

CONTEXT_TOKENS = 4096


def interval(share: Share) -> str:
    """A share in percent with its 95% interval."""
    return f"{share.share:.0%} ({share.low:.0%} to {share.high:.0%}, {share.hits} of {share.total})"


def compare(before: Heldout, after: Heldout) -> list[tuple[str, str, str]]:
    """What was measured on held-out questions: name, before, after."""
    return [
        ("satisfied, 95% interval", interval(before.satisfied), interval(after.satisfied)),
        ("reply length, median words", f"{before.median_words:.0f}", f"{after.median_words:.0f}"),
        ("different replies", f"{before.distinct:.0%}", f"{after.distinct:.0%}"),
        ("perplexity of unrelated text", f"{before.perplexity:.2f}", f"{after.perplexity:.2f}"),
    ]


def facts(result: Result) -> list[str]:
    """What the loop did, one sentence each."""
    delay, trouble = result.delay, result.trouble
    lines = [
        f"Held-out satisfaction changed by {result.gain_points:+.0f} points; the intervals "
        + ("do not overlap." if result.apart else "overlap."),
        f"{result.sessions} sessions with {result.objections} objections and {result.thanks} thanks made "
        f"{len(result.updates)} updates in {result.minutes:.1f} minutes; version {result.version} is served.",
        f"Of {trouble.requests} requests {trouble.failed} failed, {trouble.cut} were cut, {trouble.aborted} aborted.",
    ]
    if delay.median_s is not None and delay.p90_s is not None:
        lines.append(
            f"From a correction to a changed reply: {delay.median_s:.0f} s in the median, {delay.p90_s:.0f} s for nine "
            f"of ten ({delay.measured} measured, {delay.unanswered} not taken up yet)."
        )
    if known := result.kl_curve():
        lines.append(f"KL to the base at the last update: {known[-1][1]:.4f} nats a token.")
    lines += [f"Held back: {reason}" for reason in result.held]
    return lines + [f"Problem: {detail}" for detail in trouble.details]


def client_lines(proxy: str, policy: str) -> list[tuple[str, str]]:
    """How three OpenAI-compatible clients are connected to the running stack: name, and one line to use."""
    url = f"{proxy}/v1"
    model = {"id": policy, "name": policy, "reasoning": False, "input": ["text"]}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    full = {**model, "contextWindow": CONTEXT_TOKENS, "maxTokens": 1024, "cost": cost}
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "local", "models": [full]}
    opencode = {
        "model": f"drivetrain/{policy}",
        "provider": {
            "drivetrain": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": url, "apiKey": "local"},
                "models": {policy: {"limit": {"context": CONTEXT_TOKENS, "output": 1024}}},
            }
        },
    }
    openclaw = {
        "gateway": {"mode": "local"},
        "agents": {"defaults": {"model": {"primary": f"drivetrain/{policy}"}}},
        "models": {"mode": "merge", "providers": {"drivetrain": provider}},
    }
    return [
        ("pi: ~/.pi/agent/models.json", json.dumps({"providers": {"drivetrain": provider}})),
        ("opencode: ~/.config/opencode/opencode.json", json.dumps(opencode)),
        ("OpenClaw: ~/.openclaw/openclaw.json", json.dumps(openclaw)),
    ]


def print_report(console: Console, result: Result) -> None:
    """The table, the facts, the curve, and where the files are."""
    table = Table(title=f"Taste {result.taste}, held-out questions", title_justify="left")
    table.add_column("")
    table.add_column("before")
    table.add_column("after")
    for row in compare(result.before, result.after):
        table.add_row(*row)
    console.print(table)
    for fact in facts(result):
        console.print(fact, highlight=False, markup=False, soft_wrap=True)
    if plot := terminal_plot(result):
        console.print()
        console.print(plot, highlight=False, markup=False, soft_wrap=True)
    console.print(f"Run folder: {result.run_dir} ({RESULT_FILE}, {PLOT_FILE}, logs)", markup=False, soft_wrap=True)


def print_clients(console: Console, proxy: str, policy: str) -> None:
    """The lines that connect a client, and plain settings for any other one."""
    console.print(f"\nAny OpenAI-compatible client: base URL {proxy}/v1, any key, model {policy}", soft_wrap=True)
    for where, settings in client_lines(proxy, policy):
        console.print(where, highlight=False)
        console.print(f"  {settings}", highlight=False, markup=False, soft_wrap=True)
