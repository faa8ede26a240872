"""The lake index: from a value to the files that may hold it, among a million, by one small read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .index_advice import GranularityAdvice, IndexAdvice, advise_index
    from .index_reports import Answers, AppendReport, Candidate, CheckReport, CompactReport, IndexSnapshot, IndexStats
    from .lake_index import LakeIndex

__all__ = [
    "Answers",
    "AppendReport",
    "Candidate",
    "CheckReport",
    "CompactReport",
    "GranularityAdvice",
    "IndexAdvice",
    "IndexSnapshot",
    "IndexStats",
    "LakeIndex",
    "advise_index",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "Answers": ".index_reports",
    "AppendReport": ".index_reports",
    "Candidate": ".index_reports",
    "CheckReport": ".index_reports",
    "CompactReport": ".index_reports",
    "GranularityAdvice": ".index_advice",
    "IndexAdvice": ".index_advice",
    "IndexSnapshot": ".index_reports",
    "IndexStats": ".index_reports",
    "LakeIndex": ".lake_index",
    "advise_index": ".index_advice",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
