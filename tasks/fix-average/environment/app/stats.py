"""Small statistics."""


def average(numbers):
    """The arithmetic mean; 0 for an empty list."""
    total = 0
    for number in numbers:
        total += number
    return total / len(numbers)
