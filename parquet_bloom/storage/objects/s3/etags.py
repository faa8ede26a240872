"""An object's etag as it is compared, and as requests spell it: servers differ in whether they want it in quotes."""

from __future__ import annotations

from collections.abc import Callable

Spelling = Callable[[str], str]


def bare(etag: str | None) -> str:
    """The etag without quotes, as it is compared; empty for none."""
    return (etag or "").strip().strip('"')


def quoted(etag: str) -> str:
    """The etag in quotes, as HTTP has it."""
    return f'"{bare(etag)}"'


def same_etag(one: str | None, other: str | None) -> bool:
    """Whether two etags, neither of them none, are the same one."""
    return bool(bare(one)) and bare(one) == bare(other)


SPELLINGS: tuple[Spelling, ...] = (quoted, bare)
"""In the order in which they are tried."""
