"""`make bench NAME=exactness`: see `run.py`."""

from benchmarks.exactness.run import main

main()
