"""The learning rate over the steps of a lineage. Live learning has no last step, so nothing here knows a horizon."""


def learning_rate(first: float, settle_steps: float | None, step: int) -> float:
    """The rate of a step, counted from 0: constant, or `first / (1 + step / settle_steps)`, which is half of it after
    `settle_steps` steps and falls ever more slowly (the Robbins-Monro condition: its sum diverges, that of its squares
    does not)."""
    return first if settle_steps is None else first / (1 + step / settle_steps)
