"""`make bench NAME=weights`: see `run.py`."""

from benchmarks.weights.run import main

main()
