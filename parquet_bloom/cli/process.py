"""A process that runs one command: what makes its start and its end short."""

from __future__ import annotations

import gc
import os

_GARBAGE = 100_000  # new objects between two searches for cycles: at Python's 700, a sixth of an import goes into these


def prepare_process() -> None:
    """Make imports faster; to be called before numpy is imported."""
    gc.set_threshold(_GARBAGE)
    # numpy's BLAS, which no command uses, would start a thread for each processor, and these wait by spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def end_process() -> None:
    """Let Python end the process without a search for cycles among all that was imported."""
    gc.freeze()
