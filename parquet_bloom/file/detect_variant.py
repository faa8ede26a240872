"""`detect_variant`: determine the variant of a file's filters from the values of its columns."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.bloom.variants import Variant
from .bloom_file import BloomFile
from .drafts import Trial


def detect_variant(
    file: BloomFile, columns: Iterable[str] | None = None, row_groups: Iterable[int] | None = None
) -> Variant | None:
    """Return the one variant that all filters of a file (of some columns, some row groups) can have.

    Each variant that the filters' headers allow is tried on the first 1,024 distinct values of each column chunk.
    Returns None unless there is exactly one variant under which no filter denies a value, or if chance can explain the
    result, because values are few or nearly all bits are set.

    Parameters
    ----------
    file : an open file, under any variant.
    columns : dotted paths; None for all.
    row_groups : ordinals; None for all.

    Raises
    ------
    ParquetBloomError
        A filter or a column cannot be read.

    Examples
    --------
    >>> with parquet_bloom.open("old.parquet") as file:  # doctest: +SKIP
    ...     print(detect_variant(file))
    murmur3+mask+raw
    """
    trials = [
        chunk.trial() for chunk in file.with_variant("detect").chunks(row_groups, columns) if chunk.column_type.hashable
    ]
    trial = Trial.together(trials) if trials else None
    return trial.fitting[0] if trial and not trial.problem else None
