"""`make bench NAME=loop`: see `run.py`."""

from benchmarks.loop.run import main

main()
