"""Calls the function in a process of its own and prints the share of cases that come out right, as JSON."""

import json
import subprocess
import sys

CASES = [
    ([1, 4], 10),
    ([7, 7], 7),
    ([-2, 2], 0),
    ([5, 3], 0),
]
CALL = """
import json, sys
from ranges import sum_range
found = []
for arguments in json.load(sys.stdin):
    try:
        found.append(sum_range(*arguments))
    except Exception as error:
        found.append(type(error).__name__)
json.dump(found, sys.__stdout__)
"""


def results():
    asked = json.dumps([arguments for arguments, _ in CASES])
    try:
        ran = subprocess.run(
            [sys.executable, "-c", CALL], input=asked, capture_output=True, text=True, timeout=10, check=True
        )
        return json.loads(ran.stdout)
    except (subprocess.SubprocessError, ValueError):
        return []


found = results()
passed = sum(1 for (_, right), result in zip(CASES, found) if result == right)
# What works already earns nothing: only a program without a fault does.
print(json.dumps({"reward": float(passed == len(CASES)), "passed": passed / len(CASES)}))
