"""Satisfaction over time: as a PNG, and in the terminal."""

from pathlib import Path

from drivetrain.cli.demo.result import WINDOW, Result, moving_share

PLOT_FILE = "satisfaction.png"


def curve(result: Result) -> tuple[list[float], list[float]]:
    """Minutes since the first session, and satisfaction in percent over the last first replies."""
    share = moving_share([first.fits for first in result.firsts])
    return [first.minutes for first in result.firsts], [100 * value for value in share]


def save_png(result: Result) -> Path:
    """Draw satisfaction and KL over time, with the held-out shares and their intervals, into the run folder."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, left = plt.subplots(figsize=(8, 4.5), layout="constrained")
    left.plot(*curve(result), color="tab:blue", label=f"first replies, last {WINDOW}")
    last = max([0.0, *(first.minutes for first in result.firsts)])
    rounds = (("before", 0.0, result.before, "tab:gray"), ("after", last, result.after, "tab:green"))
    for name, at, heldout, color in rounds:
        share = heldout.satisfied
        error = [[100 * (share.share - share.low)], [100 * (share.high - share.share)]]
        left.errorbar([at], [100 * share.share], error, fmt="o", color=color, capsize=4, label=f"held out, {name}")
    left.set(xlabel="minutes since the first session", ylabel="satisfied (%)", ylim=(-3, 103))
    for update in result.updates:
        left.axvline(update.minutes, color="black", alpha=0.08)
    known = [
        (update.minutes, update.metrics["kl_reference"])
        for update in result.updates
        if "kl_reference" in update.metrics
    ]
    if known:
        right = left.twinx()
        right.plot(*zip(*known, strict=True), color="tab:orange", linestyle="--", label="KL to the base")
        right.set_ylabel("KL to the base (nats a token)")
    left.set_title(f"Taste {result.taste}: {len(result.updates)} updates, seed {result.seed}")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    target = Path(result.run_dir) / PLOT_FILE
    figure.savefig(target, dpi=120)
    plt.close(figure)
    return target


def terminal_plot(result: Result, width: int = 76, height: int = 16) -> str:
    """The same curve for a terminal, without colours; empty when there was no session."""
    import plotext

    minutes, percent = curve(result)
    if not minutes:
        return ""
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    signal = figure.signal(minutes, percent, marker="braille")
    signal.lines()
    figure.draw(signal)
    figure.ruler("y").lim(0, 100)
    figure.title(f"satisfied (%), last {WINDOW} first replies")
    figure.label("minutes since the first session")
    return str(figure.build().string(True)).rstrip()
