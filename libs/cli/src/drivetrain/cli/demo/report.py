"""The end of the demo in words: a table of before and after, what the loop did, and how to go on from here."""

from rich.console import Console
from rich.table import Table

from drivetrain.cli.demo.evaluate import Heldout, Share
from drivetrain.cli.demo.plots import PLOT_FILE, terminal_plot
from drivetrain.cli.demo.result import RESULT_FILE, Result
from drivetrain.common.harnesses import load_harnesses


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
    """How to go on with a client of one's own."""
    console.print(f"\nAny OpenAI-compatible client: base URL {proxy}/v1, any key, model {policy}", soft_wrap=True)
    console.print("An agent: `drivetrain connect NAME` prints its settings, for one of", highlight=False)
    console.print(f"  {', '.join(load_harnesses())}", highlight=False, soft_wrap=True)
