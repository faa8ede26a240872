"""What bounds the service: nothing that a client sends makes it take more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How the service is run.

    Attributes
    ----------
    read_only : refuse whatever changes the index.
    roots : folders and URLs besides those of the index's lake below which files may be appended.
    refresh_seconds : how often to look at the index and the lake again; None for when it is asked to.
    max_values : values, or files, in a request.
    max_body : bytes of a request's body; eight such bodies may be on their way at once.
    max_candidates : files that an answer may name, all values together.
    lookup_threads, lookups_waiting : lookups that run at once, and that may wait for their turn.
    changes_waiting : changes that may wait for their turn; one runs at a time.
    lookup_seconds, change_seconds : how long they may take; a change also waits so long for its turn.
    body_seconds : until a body has come.
    head_seconds : until the head of a request has come.
    answer_seconds : in which a client takes 64 KiB of its answer, or is left.
    max_connections : that are open at once.
    """

    read_only: bool = False
    roots: Sequence[str] = ()
    refresh_seconds: float | None = None
    max_values: int = 10_000
    max_body: int = 8_000_000
    max_candidates: int = 1_000_000
    lookup_threads: int = 8
    lookups_waiting: int = 256
    changes_waiting: int = 8
    lookup_seconds: float = 30.0
    change_seconds: float = 600.0
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    answer_seconds: float = 10.0
    max_connections: int = 512
