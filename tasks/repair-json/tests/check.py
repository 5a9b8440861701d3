"""Prints 1 if the menu can be read and is the one that was meant."""

import json

MEANT = {
    "dishes": [
        {"name": "soup", "price": 4.5},
        {"name": "bread", "price": 1.0},
        {"name": "fish", "price": 9.5},
    ]
}
try:
    with open("menu.json") as file:
        found = json.load(file)
except (OSError, ValueError):
    found = None
print(1 if found == MEANT else 0)
