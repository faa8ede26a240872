"""Settings and limits of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .request_guards import Tokens


@dataclass(frozen=True)
class Settings:
    """Settings of the service.

    Attributes
    ----------
    read_only : reject requests that change the index.
    rows : answer requests for rows of the lake.
    tokens : tokens of which each request must have one; None to answer everyone.
    open_metrics : answer GET /metrics without a token.
    roots : folders and URLs besides those of the index's lake below which files may be appended.
    refresh_seconds : interval of refreshes of the index and the lake; None to refresh on request only.
    max_values : maximum number of values, or files, in a request.
    max_body : maximum bytes of a request's body; eight such bodies may be in memory at the same time.
    max_candidates : maximum number of files in a response, of all values together.
    max_rows, max_answer : maximum number of rows in a response, and of bytes that they take.
    lookup_threads, lookups_waiting : maximum number of running and of waiting lookups.
    row_threads, rows_waiting : the same for requests for rows.
    changes_waiting : maximum number of waiting changes; one runs at a time.
    lookup_seconds, change_seconds : timeouts; a change also waits up to this time for its turn.
    body_seconds : timeout for receiving a body.
    head_seconds : timeout for receiving the head of a request.
    answer_seconds : time in which a client must read 64 KiB of its response; otherwise the connection is closed.
    max_connections : maximum number of open connections.
    """

    read_only: bool = False
    roots: Sequence[str] = ()
    refresh_seconds: float | None = None
    max_values: int = 10_000
    max_body: int = 8_000_000
    rows: bool = False
    tokens: Tokens | None = None
    open_metrics: bool = False
    max_rows: int = 100_000
    max_answer: int = 16_000_000
    max_candidates: int = 1_000_000
    lookup_threads: int = 8
    lookups_waiting: int = 256
    row_threads: int = 4
    rows_waiting: int = 64
    changes_waiting: int = 8
    lookup_seconds: float = 30.0
    change_seconds: float = 600.0
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    answer_seconds: float = 10.0
    max_connections: int = 512
