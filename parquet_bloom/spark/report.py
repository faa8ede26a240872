"""What a distributed embedding did, file by file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FileResult:
    """What was done to one file.

    Attributes
    ----------
    path : the file.
    status : "embedded", "unchanged" (its filters were there) or "failed".
    bytes_added : how much larger it became.
    filters : number of filters written.
    kept : number of filters that were there and stayed.
    missing : columns asked for that it does not have.
    seconds : time that the task took for it.
    error : why it failed, or None.
    """

    path: str
    status: str
    bytes_added: int = 0
    filters: int = 0
    kept: int = 0
    missing: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None


@dataclass
class EmbedJobReport:
    """What `parquet_bloom.spark.embed` did.

    Attributes
    ----------
    files : a result a file, in the order of their paths.
    seconds : time from call to return.
    """

    files: list[FileResult] = field(default_factory=list)
    seconds: float = 0.0

    def _with(self, status: str) -> list[FileResult]:
        return [file for file in self.files if file.status == status]

    @property
    def ok(self) -> bool:
        """Whether no file failed."""
        return not self.failures

    @property
    def failures(self) -> list[FileResult]:
        """The files that failed; each is as it was before."""
        return self._with("failed")

    @property
    def total_files(self) -> int:
        return len(self.files)

    @property
    def embedded_files(self) -> int:
        return len(self._with("embedded"))

    @property
    def unchanged_files(self) -> int:
        return len(self._with("unchanged"))

    @property
    def bytes_added(self) -> int:
        return sum(file.bytes_added for file in self.files)

    @property
    def num_filters(self) -> int:
        """Number of filters written."""
        return sum(file.filters for file in self.files)

    def __str__(self) -> str:
        total = f"{self.total_files:,} file{'' if self.total_files == 1 else 's'}"
        parts = [f"embedded {self.num_filters:,} filters into {self.embedded_files:,} of {total}"]
        parts.append(f"{self.bytes_added:+,} bytes")
        if self.unchanged_files:
            parts.append(f"{self.unchanged_files:,} unchanged")
        if self.failures:
            first = self.failures[0]
            parts.append(f"{len(self.failures):,} failed ({first.error})")
        return ", ".join([*parts, f"{self.seconds:.1f} s"])
