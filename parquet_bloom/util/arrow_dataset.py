"""`pyarrow.dataset`, imported without pandas."""

from __future__ import annotations

from importlib import import_module
from threading import Lock
from types import ModuleType

import pyarrow as pa
import pyarrow.lib

from .arrow_values import make_scalar

_importing = Lock()


def import_dataset() -> ModuleType:
    """Import `pyarrow.dataset`.

    Its compiled part makes an expression of True when it is imported, by `pyarrow.lib.scalar`, which imports pandas to
    find out whether True is one of pandas' values. Meanwhile that name is a function that returns the same for all
    arguments, and knows what True is.
    """
    with _importing:
        make, true = pyarrow.lib.scalar, make_scalar(True, pa.bool_())

        def make_known(value: object, *arguments: object, **options: object) -> pa.Scalar:
            is_known = value is True and not arguments and not options
            return true if is_known else make(value, *arguments, **options)

        pyarrow.lib.scalar = make_known
        try:
            return import_module("pyarrow.dataset")
        finally:
            pyarrow.lib.scalar = make
