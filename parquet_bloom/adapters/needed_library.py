"""What an adapter says where the library that it is for is not installed, or too old."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ParquetBloomError
from ..util.releases import is_older


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


def require_release(what: str, package: str, version: str, oldest: str) -> None:
    """Raise ParquetBloomError where a library is of an older release than an adapter works with.

    Parameters
    ----------
    what : needs the library, for people.
    package : for pip.
    version : that is installed.
    oldest : that will do.
    """
    if is_older(version, oldest):
        raise ParquetBloomError(
            f"{what} needs {package} {oldest} or newer, got {version}: pip install '{package}>={oldest}'"
        )
