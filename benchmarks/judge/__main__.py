"""`make bench NAME=judge`: see `run.py`."""

from benchmarks.judge.run import main

main()
