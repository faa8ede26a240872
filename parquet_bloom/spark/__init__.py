"""The package's functions on Spark: embed on the executors, and read only the files and row groups that can match."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError:
    _problem = "parquet_bloom.spark needs the extra 'spark': pip install 'parquet-bloom[spark]'"
    raise ModuleNotFoundError(_problem, name="pyspark") from None

from .build_index import build_index
from .delete_from_table import delete
from .embed_into_table import embed_table
from .erase_from_lake import erase
from .install import install
from .job_report import EmbedJobReport, FileResult, FileVerdict, VerifyJobReport
from .lake_jobs import advise, embed, verify
from .locate_rows import locate
from .parquet_reader import explain_prune, pruned, read_parquet
from .read_orc import read_orc
from .read_table import read_table
from .semi_join import semi_join_prune
from .source.datasource import register
from .upsert_into_table import upsert
from .write_options import write_options

__all__ = [
    "EmbedJobReport",
    "FileResult",
    "FileVerdict",
    "VerifyJobReport",
    "advise",
    "build_index",
    "delete",
    "embed",
    "embed_table",
    "erase",
    "explain_prune",
    "install",
    "locate",
    "pruned",
    "read_orc",
    "read_parquet",
    "read_table",
    "register",
    "semi_join_prune",
    "upsert",
    "verify",
    "write_options",
]
