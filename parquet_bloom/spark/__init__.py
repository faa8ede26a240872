"""The package's functions on Spark: embed on the executors, and read only the files and row groups that can match.

`session` comes first, then `condition`, `partitions` and `jobs`, then `scan`, `arrow`, `plan` and `source`, then
`tables`; the public functions, one module each, build on these.
"""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError:
    _problem = "parquet_bloom.spark needs the extra 'spark': pip install 'parquet-bloom[spark]'"
    raise ModuleNotFoundError(_problem, name="pyspark") from None

from .advise import advise
from .build_index import build_index
from .embed import embed
from .install import install
from .locate import locate
from .read import explain_prune, pruned, read_parquet
from .read_orc import read_orc
from .read_table import read_table
from .report import EmbedJobReport, FileResult, FileVerdict, VerifyJobReport
from .semi_join import semi_join_prune
from .source.datasource import register
from .verify import verify
from .write_options import write_options

__all__ = [
    "EmbedJobReport",
    "FileResult",
    "FileVerdict",
    "VerifyJobReport",
    "advise",
    "build_index",
    "embed",
    "explain_prune",
    "install",
    "locate",
    "pruned",
    "read_orc",
    "read_parquet",
    "read_table",
    "register",
    "semi_join_prune",
    "verify",
    "write_options",
]
