"""What an adapter says where the library that it is for is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_library(name: str, what: str, requirement: str) -> Iterator[None]:
    """Import a library in the `with` statement; say what needs it, and how to install it, where it is missing.

    Parameters
    ----------
    name : of its module.
    what : needs which library, for people.
    requirement : for pip.
    """
    try:
        yield
    except ModuleNotFoundError:
        problem = f"{what}, which is not installed: pip install {requirement}"
        raise ModuleNotFoundError(problem, name=name) from None
