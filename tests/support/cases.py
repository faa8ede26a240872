"""Many cases of a test in one test id, where each takes less time than pytest needs to begin another one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_case(
    names: str | Sequence[str], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run the test once for each case; a failure names its own.

    Parameters
    ----------
    names : of parameters, as `pytest.mark.parametrize` takes them. Decorators may stand upon each other.
    values : a value for each case, or a tuple of them where there are several names.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_arguments(parameters, value) for value in values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            assert cases
            for case in cases:
                try:
                    test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"case: {case!r}"[:2_000])
                    raise

        signature = inspect.signature(test)
        remaining = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        assert len(remaining) + len(parameters) == len(signature.parameters), f"not parameters of the test: {names}"
        all_cases.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]
        return all_cases

    return decorate


def _arguments(parameters: list[str], value: Any) -> dict[str, Any]:
    if isinstance(value, type(pytest.param())):
        assert not value.marks, "a mark is for a test id of its own"
        value = value.values if len(parameters) > 1 else value.values[0]
    values = value if len(parameters) > 1 else (value,)
    assert len(values) == len(parameters), f"{parameters}: {value!r}"
    return dict(zip(parameters, values, strict=True))
