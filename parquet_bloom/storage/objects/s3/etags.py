"""Comparison and spelling of etags: servers differ in whether they require quotes."""

from __future__ import annotations

from collections.abc import Callable

Spelling = Callable[[str], str]


def bare(etag: str | None) -> str:
    """Return the etag without quotes, for comparisons; empty for None."""
    return (etag or "").strip().strip('"')


def quoted(etag: str) -> str:
    """Return the etag in quotes, as in HTTP."""
    return f'"{bare(etag)}"'


def same_etag(one: str | None, other: str | None) -> bool:
    """Return whether two etags are equal and not empty."""
    return bool(bare(one)) and bare(one) == bare(other)


SPELLINGS: tuple[Spelling, ...] = (quoted, bare)
"""The spellings, in the order in which they are tried."""
