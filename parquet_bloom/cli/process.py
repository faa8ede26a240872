"""A process that runs one command: what makes its start and its end short."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

_GARBAGE = 100_000  # new objects between two searches for cycles: at Python's 700, a sixth of an import goes into these


def prepare_process() -> None:
    """Make imports faster; to be called before numpy is imported."""
    gc.set_threshold(_GARBAGE)
    # numpy's BLAS, which no command uses, would start a thread for each processor, and these wait by spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def end_process(code: int) -> None:
    """End the process with an exit code, without freeing all modules one by one; return if it still has work to do."""
    gc.freeze()  # where Python does free them, without a search for cycles
    if threading.active_count() > 1:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # Python tries again, and reports it
        return
    atexit._run_exitfuncs()
    os._exit(code)
