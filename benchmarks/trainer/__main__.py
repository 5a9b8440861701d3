"""`make bench NAME=trainer`: see `run.py`."""

from benchmarks.trainer.run import main

main()
