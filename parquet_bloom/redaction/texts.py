"""Hide secrets in texts and in values that hold texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .forms import HIDDEN, redact_patterns
from .values import VALUES

T = TypeVar("T")


def redacted(text: str) -> str:
    """Return a text with its secrets hidden; idempotent."""
    for value in VALUES.forms:
        if value in text:
            text = text.replace(value, HIDDEN)
    return redact_patterns(text)


def redacted_in(value: Any) -> Any:
    """Return a value with all texts redacted, including those in lists, tuples, sets and mappings and their keys."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        result = redacted(text)
        return value if result == text else result.encode("latin-1")
    if isinstance(value, Mapping):
        return {redacted_in(key): redacted_in(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(redacted_in, value))
    return value


def shown_redacted(cls: type[T]) -> type[T]:
    """Decorate a class so that `repr` and `str` of its objects hide secrets; attributes are not changed."""
    for name in ("__repr__", "__str__"):
        if name in cls.__dict__:
            setattr(cls, name, _redact_result(cls.__dict__[name]))
    return cls


def _redact_result(method: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(method)
    def wrapper(self: Any) -> str:
        return redacted(method(self))

    return wrapper
