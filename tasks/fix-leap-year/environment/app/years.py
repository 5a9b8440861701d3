"""The Gregorian calendar."""


def is_leap(year):
    """Whether a year has 366 days: every fourth, no hundredth, every four-hundredth."""
    return year % 4 == 0 and year % 100 != 0
