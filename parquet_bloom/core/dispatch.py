"""The kernels for the processor at hand: chosen once, when this is imported.

`PARQUET_BLOOM_SIMD` forces a path: base, sse41, avx2 or avx512.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from .cpu import instruction_sets

VARIABLE = "PARQUET_BLOOM_SIMD"


def choose(wanted: str | None) -> tuple[str, ModuleType]:
    """The name and the module of a path: the one that is wanted, else the best that processor and build have."""
    usable = [*instruction_sets(), "base"]  # best first
    if wanted:
        if wanted not in usable:
            raise ImportError(f"{VARIABLE}={wanted} cannot be: this processor and build have {', '.join(usable)}")
        usable = [wanted]
    return usable[0], import_module(f"{__package__}.kernels_{usable[0]}")


SIMD, kernels = choose(os.environ.get(VARIABLE))
