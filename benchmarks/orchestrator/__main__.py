"""`make bench NAME=orchestrator`: see `run.py`."""

from benchmarks.orchestrator.run import main

main()
