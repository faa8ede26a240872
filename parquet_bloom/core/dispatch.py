"""The kernels for the processor at hand: chosen once, when this is imported.

`PARQUET_BLOOM_SIMD` forces a path: base, sse41, avx2 or avx512; a KernelError if that cannot be.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..errors import KernelError
from .cpu import instruction_sets

VARIABLE = "PARQUET_BLOOM_SIMD"


def module_of(path: str) -> str:
    """The full name of a path's kernel module."""
    return f"{__package__}.kernels.{path}"


def choose(wanted: str | None) -> tuple[str, ModuleType]:
    """The name and the module of a path: the one that is wanted, else the best that processor and build have."""
    # Best first. A build may have fewer modules than the processor has sets: one for another processor, emulated here.
    usable = [path for path in (*instruction_sets(), "base") if find_spec(module_of(path))]
    if wanted:
        if wanted not in usable:
            raise KernelError(f"{VARIABLE}={wanted} cannot be: this processor and build have {', '.join(usable)}")
        usable = [wanted]
    return usable[0], import_module(module_of(usable[0]))


SIMD, kernels = choose(os.environ.get(VARIABLE, "").strip().lower())
