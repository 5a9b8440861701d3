"""The figures of the loop benchmark, from the results of its demos."""

import statistics
from collections.abc import Sequence

from drivetrain.cli.demo.result import Result


def figures(results: Sequence[Result]) -> dict[str, float]:
    """The worst over the seeds for what must hold in each of them; for the delay, the largest of the medians.

    A delay that was never measured is left out.
    """
    delays = [result.delay.median_s for result in results if result.delay.median_s is not None]
    worst_delay = {"correction_to_changed_reply_s": max(delays)} if delays else {}
    return {
        "heldout_gain_points_min": min(result.gain_points for result in results),
        "heldout_gain_points_median": statistics.median(result.gain_points for result in results),
        "seeds_with_intervals_apart": float(sum(result.apart for result in results)),
        "seeds": float(len(results)),
        "failed_requests": float(sum(result.troubles for result in results)),
        "requests": float(sum(result.trouble.requests for result in results)),
        **worst_delay,
        "minutes": max(result.minutes for result in results),
        "minutes_with_start": max(result.total_minutes for result in results),
        "reply_median_words_min": min(result.after.median_words for result in results),
        "reply_median_words_max": max(result.after.median_words for result in results),
        "distinct_replies_ratio_min": min(result.after.distinct / result.before.distinct for result in results),
        "perplexity_ratio_max": max(result.after.perplexity / result.before.perplexity for result in results),
    }


def rows(results: Sequence[Result]) -> list[list[str]]:
    """One line of the table for each seed."""
    return [
        [
            str(result.seed),
            f"{result.before.satisfied.share:.0%}",
            f"{result.after.satisfied.share:.0%} ({result.after.satisfied.low:.0%}-{result.after.satisfied.high:.0%})",
            f"{result.gain_points:+.0f}",
            str(len(result.updates)),
            f"{result.minutes:.1f}",
            "-" if result.delay.median_s is None else f"{result.delay.median_s:.0f}",
            f"{result.troubles} of {result.trouble.requests}",
            f"{result.after.median_words:.0f}",
            f"{result.after.distinct / result.before.distinct:.2f}",
            f"{result.after.perplexity / result.before.perplexity:.3f}",
        ]
        for result in results
    ]


COLUMNS = (
    "seed", "before", "after (95%)", "points", "updates", "minutes", "to changed reply, s", "failed", "words",
    "distinct, ratio", "perplexity, ratio",
)  # fmt: skip
