"""A package that is not installed: the error names the extra that has it, on one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from parquet_bloom.adapters.needed_library import require_release
from parquet_bloom.errors import ParquetBloomError


@pytest.mark.parametrize("before", ["", "import parquet_bloom; "])
def test_spark_without_pyspark_names_its_extra(before: str) -> None:
    code = f"import sys; sys.modules['pyspark'] = None; {before}from parquet_bloom import spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    problem = "parquet_bloom.spark needs the extra 'spark': pip install 'parquet-bloom[spark]'"
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {problem}"
    assert "During handling" not in done.stderr


def test_packing_for_spark_without_pyspark_is_one_line() -> None:
    arguments = "import sys; sys.modules['pyspark'] = None; sys.argv[1:] = ['spark-archive', '-o', 'x.tar.gz']; "
    code = arguments + "from parquet_bloom.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.startswith("error: "), "pip install 'parquet-bloom[spark]'" in line) == (
        2,
        True,
        True,
    )


def test_adapters_refuse_libraries_that_are_too_old() -> None:
    for version in ("2.56.0", "2.100", "3.0.0.dev0"):
        require_release("RayLake", "ray[data]", version, "2.56")
    with pytest.raises(ParquetBloomError, match=r"RayLake needs ray\[data\] 2\.56 or newer, got 2\.55\.1: pip install"):
        require_release("RayLake", "ray[data]", "2.55.1", "2.56")
    with pytest.raises(ParquetBloomError, match=r"got 0\.7\.9rc1"):
        require_release("DaftLake", "daft", "0.7.9rc1", "0.7.10")
