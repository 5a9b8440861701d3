"""Ends what a killed stack left behind. Every process of a stack carries the run's mark in its environment."""

import os
import signal

import psutil

MARK = "DRIVETRAIN_UP_RUN"


def end_marked(run_dir: str, grace_s: float = 3.0) -> int:
    """End the processes of the run in that folder; returns how many there were.

    Only this user's processes that carry this run's mark are touched: a process number may have been used anew.
    """
    found = [process for process in psutil.process_iter() if _is_marked(process, run_dir)]
    for process in found:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(found, timeout=grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=grace_s)
    return len(found)


def _is_marked(process: psutil.Process, run_dir: str) -> bool:
    try:
        return process.pid != os.getpid() and process.environ().get(MARK) == run_dir
    except psutil.Error:
        return False


def _signal(process: psutil.Process, signum: int) -> None:
    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        return
