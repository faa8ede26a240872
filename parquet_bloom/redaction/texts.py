"""Texts of any kind without the secrets in them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .forms import HIDDEN, redact_patterns
from .values import VALUES

T = TypeVar("T")


def redacted(text: str) -> str:
    """Return a text without the secrets in it.

    What is hidden once stays as it is: the result is redacted to itself.
    """
    for value in VALUES.found:
        if value in text:
            text = text.replace(value, HIDDEN)
    return redact_patterns(text)


def redacted_in(value: Any) -> Any:
    """Return lists, tuples and mappings with all texts in them redacted, keys included; else the value itself."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        without = redacted(text)
        return value if without == text else without.encode("latin-1")
    if isinstance(value, Mapping):
        return {redacted_in(key): redacted_in(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(redacted_in, value))
    return value


def shown_redacted(cls: type[T]) -> type[T]:
    """Let `repr` and `str` of a class's objects hide secrets; their attributes are what they were given."""
    for name in ("__repr__", "__str__"):
        if name in cls.__dict__:
            setattr(cls, name, _redacting(cls.__dict__[name]))
    return cls


def _redacting(method: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(method)
    def shown(self: Any) -> str:
        return redacted(method(self))

    return shown
