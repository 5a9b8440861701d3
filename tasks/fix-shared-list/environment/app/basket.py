"""Baskets of a shop."""


def put(item, basket=[]):
    """The basket with the item in it; a new basket where none is given."""
    basket.append(item)
    return basket


def fill(items):
    """A basket for each item."""
    return [put(item) for item in items]
