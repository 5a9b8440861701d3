"""Sums of whole numbers."""


def sum_range(first, last):
    """The sum of the whole numbers from `first` to `last`, both included; 0 if there is none."""
    return sum(range(first, last))
