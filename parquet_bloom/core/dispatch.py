"""Select the kernels for this processor, once, when this module is imported.

`PARQUET_BLOOM_SIMD` forces a path: base; avx2 or avx512 on x86-64; neon on aarch64. A KernelError is raised if it is
not supported.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..errors import KernelError
from .cpu import instruction_sets

VARIABLE = "PARQUET_BLOOM_SIMD"


def kernel_module_name(path: str) -> str:
    """Return the full name of a path's kernel module."""
    return f"{__package__}.kernels.{path}"


def choose(requested: str | None) -> tuple[str, ModuleType]:
    """Return the name and the module of the requested path, or of the best one that processor and build support."""
    # Best first. A build for another processor, which is emulated here, may have fewer modules than there are sets.
    usable = [path for path in (*instruction_sets(), "base") if find_spec(kernel_module_name(path))]
    if requested:
        if requested not in usable:
            raise KernelError(
                f"{VARIABLE}={requested} is not supported: this processor and build have {', '.join(usable)}"
            )
        usable = [requested]
    return usable[0], import_module(kernel_module_name(usable[0]))


SIMD, kernels = choose(os.environ.get(VARIABLE, "").strip().lower())
