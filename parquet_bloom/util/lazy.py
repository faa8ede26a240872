"""Names and modules that are imported at their first use, since numpy and pyarrow alone take long to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

# One thread at a time: if two threads import modules that depend on each other, Python avoids a deadlock by giving one
# of them a partially initialized module. No module of the package may import lazy names itself: it could hold Python's
# lock of a module that another thread, which holds this one, waits for.
_importing = RLock()
_PACKAGE = __name__.partition(".")[0]


def make_lazy(namespace: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Return `__getattr__` and `__dir__` of a module with lazy names.

    Parameters
    ----------
    namespace : the module's globals.
    homes : the module of each name, relative to the package.
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            module = namespace["__name__"]
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        with _importing:
            value = namespace[name] = getattr(import_module(home, namespace["__package__"]), name)
        return value

    def list_names() -> list[str]:
        return sorted({*namespace, *homes})

    return get, list_names


class _LateModule(ModuleType):
    """Stands for a module, which is imported when an attribute of it is first used."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        if not self.__name__.startswith(_PACKAGE):  # tests replace functions of the package's own modules
            setattr(self, name, value)  # so that the next use costs nothing
        return value


def late_module(name: str) -> Any:
    """Return what can be used like a module that takes long to import, and that many calls need not.

    To type checkers, import the module itself under `TYPE_CHECKING`.
    """
    return _LateModule(name)


def is_installed(name: str) -> bool:
    """Return whether a package is installed, without importing it."""
    return find_spec(name) is not None
