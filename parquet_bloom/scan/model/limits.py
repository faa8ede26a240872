"""How much of a file may be decoded at once, and estimates of how much memory that takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

MAX_BYTES = 96 * 1024 * 1024
"""Bound on the decoded bytes in flight of one scan, by default."""

_WHOLE_SHARE, _WINDOW_SHARE = 2, 8  # parts of the bound that a row group, or a window of a larger one, may take
_MIN_WINDOW = 1024  # rows


@dataclass(frozen=True)
class ReadLimits:
    """How row groups are decoded.

    Attributes
    ----------
    max_bytes : bound on the decoded bytes of all threads; a row group that may take more than its share is decoded a
        window of rows at a time. None for no bound.
    use_threads : whether pyarrow decodes the columns of a row group concurrently.
    is_streamed : whether the consumer may stop at any result, so that the first ones are of few row groups.
    widths : the most memory that a row of each column has taken, in bytes.
    """

    max_bytes: int | None = None
    use_threads: bool = True
    is_streamed: bool = False
    widths: dict[str, float] = field(default_factory=dict)

    def note(self, table: pa.Table) -> None:
        """Note how much memory the columns of a row group took: dictionaries do not show in a footer."""
        if not table.num_rows:
            return
        for name, column in zip(table.schema.names, table.columns, strict=True):
            width = column.get_total_buffer_size() / table.num_rows
            if width > self.widths.get(name, 0.0):
                self.widths[name] = width

    @property
    def whole_bytes(self) -> int | None:
        """The most bytes of a row group that is decoded at once; None for any number."""
        return None if self.max_bytes is None else self.max_bytes // _WHOLE_SHARE

    def needs_windows(self, num_bytes: int) -> bool:
        """Return whether a row group of an estimated size is decoded a window at a time."""
        return self.whole_bytes is not None and num_bytes > self.whole_bytes

    def window_bytes(self, num_bytes: int) -> int:
        """Return the bytes that are decoded at once of a row group of an estimated size."""
        if self.max_bytes is None or not self.needs_windows(num_bytes):
            return num_bytes
        return max(1, self.max_bytes // _WINDOW_SHARE)

    def window_rows(self, num_rows: int, num_bytes: int) -> int:
        """Return the rows that are decoded at once of a row group of an estimated size."""
        return max(_MIN_WINDOW, num_rows * self.window_bytes(num_bytes) // max(1, num_bytes))
