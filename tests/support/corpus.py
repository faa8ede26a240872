"""Where files from other projects' test suites are: `PARQUET_BLOOM_CORPUS`, or beside the project."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("PARQUET_BLOOM_CORPUS") or Path(__file__).resolve().parents[3] / "shared" / "corpus")
