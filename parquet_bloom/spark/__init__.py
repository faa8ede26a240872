"""The same jobs on Spark: embed on the executors, and read only files and row groups that can hold a match."""

from .embed import embed
from .read import read_parquet
from .report import EmbedJobReport, FileResult

__all__ = ["EmbedJobReport", "FileResult", "embed", "read_parquet"]
