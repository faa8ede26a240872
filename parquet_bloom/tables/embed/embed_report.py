"""The results of `embed_table`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import printable, shortened
from ...redaction import shown_redacted
from ...util.messages import count

_SHOWN = 20  # files that the text of a report lists


@shown_redacted
@dataclass(frozen=True)
class ExchangedFile:
    """A file of a table that was replaced by a new one with filters; in a dry run, one that would be.

    Attributes
    ----------
    old, new : paths; in a dry run there is no file `new`.
    old_size, new_size : bytes.
    num_filters : filters that the new file has and the old one lacks.
    """

    old: str
    new: str
    old_size: int
    new_size: int
    num_filters: int


@shown_redacted
@dataclass(frozen=True)
class SkippedFile:
    """A file of a table that stays as it is though it lacks filters.

    Attributes
    ----------
    path : the file.
    reason : why.
    """

    path: str
    reason: str


@shown_redacted
@dataclass(frozen=True)
class EmbedTableReport:
    """The result of `embed_table`.

    Attributes
    ----------
    table : the table's folder, or its name in a catalog.
    old_version, new_version : Delta's version or Iceberg's snapshot id, before the commit and by it; equal if nothing
        was committed. Another writer's commit may lie between the beginning and `old_version`.
    files : the files that were replaced.
    skipped : files that lack filters and stay as they are, with the reasons.
    num_complete : files that had all filters already, or have none of the columns.
    num_left : files that lack filters and were left for another run, by `max_files`.
    properties : properties of the table that were set.
    dry_run : whether nothing was written.
    attempts : number of commits that were tried.
    seconds : time taken.
    """

    table: str
    old_version: int | None
    new_version: int | None
    files: tuple[ExchangedFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    num_complete: int = 0
    num_left: int = 0
    properties: tuple[str, ...] = field(default=())
    dry_run: bool = False
    attempts: int = 0
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether a commit was made."""
        return self.old_version != self.new_version or (self.attempts > 0 and bool(self.properties))

    @property
    def num_filters(self) -> int:
        """Number of filters that were added."""
        return sum(file.num_filters for file in self.files)

    @property
    def bytes_added(self) -> int:
        """Number of bytes by which the table's files became larger; the old files stay until a vacuum."""
        return sum(file.new_size - file.old_size for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Number of bytes of the new files."""
        return sum(file.new_size for file in self.files)

    @property
    def properties_set(self) -> str:
        """Text that says how many properties of the table were set; empty if none was."""
        number = len(self.properties)
        return f"{number:,} {'property' if number == 1 else 'properties'} of the table set" if number else ""

    def __str__(self) -> str:
        shown = self.skipped[:_SHOWN]
        lines = [f"skipped: {printable(shortened(one.path))}: {printable(one.reason)}" for one in shown]
        if len(self.skipped) > _SHOWN:
            lines.append(f"... and {len(self.skipped) - _SHOWN:,} more skipped")
        return "\n".join([*lines, f"{printable(self.table)}: {self._summarize()}"])

    def _summarize(self) -> str:
        if not self.files:
            nothing = f"no filters to add, {self.properties_set}" if self.properties else "nothing to add"
            text = f"{nothing}, {count(self.num_complete, 'file')} complete"
        else:
            text = "would get " if self.dry_run else ""
            text += f"{count(self.num_filters, 'filter')} in {count(len(self.files), 'file')}"
            text += f", {self.bytes_added:+,} bytes"
            text += f", {self.properties_set}" if self.properties else ""
        if self.old_version != self.new_version:
            text += f", version {self.old_version} -> {self.new_version}"
        text += f"; {count(len(self.skipped), 'file')} skipped" if self.skipped else ""
        text += f"; {count(self.num_left, 'file')} left" if self.num_left else ""
        return text
