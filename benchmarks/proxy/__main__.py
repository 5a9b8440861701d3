"""`make bench NAME=proxy`: see `run.py`."""

from benchmarks.proxy.run import main

main()
