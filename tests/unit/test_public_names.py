"""The public names: where they come from, when they are imported, and that nothing sees that they come late."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import parquet_bloom

SOURCE = Path(parquet_bloom.__file__)

# Each takes longer to import than the package may.
HEAVY = ["numpy", "pyarrow", "thrift", "sqlglot", "obstore", "click", "rich", "asyncio", "sqlite3", "pyspark", "pandas"]
# Used by some calls only.
RARE = ["sqlglot", "obstore", "click", "rich", "pyarrow.dataset", "pandas", "polars", "boto3", "fsspec"]


def in_a_new_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Isolated, so that no other package's start-up file imports anything; modules are found where they were found here.
    code = f"import sys; sys.path[:0] = {[path for path in sys.path if path]}\n{code}"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def test_importing_the_package_imports_nothing_heavy():
    done = in_a_new_process("import parquet_bloom; print(*sys.modules)")
    assert done.stderr == ""
    loaded = done.stdout.split()
    assert not set(HEAVY) & set(loaded)
    ours = {name for name in loaded if name.startswith("parquet_bloom") and "redaction" not in name}
    assert ours == {"parquet_bloom", "parquet_bloom.errors"}  # and what hides secrets in the errors' texts


@pytest.mark.parametrize(
    ("name", "not_needed"),
    [
        ("fpp_for", ["numpy", "pyarrow"]),
        ("open", RARE),
        ("embed", RARE),
        ("read_table", RARE),
        ("LakeIndex", RARE),
    ],
)
def test_a_name_imports_what_it_needs(name, not_needed):
    done = in_a_new_process(f"from parquet_bloom import {name}; print(*sys.modules)")
    assert done.stderr == ""
    assert not set(not_needed) & set(done.stdout.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_the_command_line_starts_without_what_commands_need(arguments):
    code = f"from parquet_bloom.cli import main\ncode = main({arguments})\nprint(code, *sys.modules)"
    done = in_a_new_process(code)
    code, *loaded = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not {"numpy", "pyarrow", "sqlglot", "obstore", "thrift"} & set(loaded)


def test_the_three_lists_of_names_agree():
    tree = ast.parse(SOURCE.read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    for_checkers = {
        alias.name: "." + (node.module or "")
        for node in ast.walk(typed)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_checkers == parquet_bloom._HOMES
    assert sorted(parquet_bloom.__all__) == parquet_bloom.__all__ == sorted([*for_checkers, "errors"])


def test_every_name_is_what_its_module_has():
    for name, home in parquet_bloom._HOMES.items():
        module = importlib.import_module(home, "parquet_bloom")
        assert getattr(parquet_bloom, name) is getattr(module, name), name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'parquet_bloom' has no attribute 'opne'"):
        parquet_bloom.opne  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'opne' from 'parquet_bloom'"):
        from parquet_bloom import opne  # noqa: F401


def test_dir_help_and_star_know_all_names():
    code = (
        "import parquet_bloom, pydoc\n"
        "print(*dir(parquet_bloom))\n"
        "print(*vars(parquet_bloom))\n"
        "from parquet_bloom import *\n"
        "print(*(name for name in parquet_bloom.__all__ if globals()[name] is getattr(parquet_bloom, name)))\n"
    )
    listed, there, starred = in_a_new_process(code).stdout.splitlines()
    assert set(parquet_bloom.__all__) | {"__version__"} <= set(listed.split())
    assert "prune" not in there.split()
    assert starred.split() == parquet_bloom.__all__
    text = pydoc.plain(pydoc.render_doc(parquet_bloom))
    for name in parquet_bloom.__all__:
        assert name in text


@pytest.mark.parametrize(
    "code",
    [
        "import parquet_bloom.scan.evaluate.planner",
        "from parquet_bloom.scan.report import PruneReport",
        "parquet_bloom.PruneReport",
        "import parquet_bloom.cli.commands.prune",
        "from parquet_bloom import prune",
        "import importlib; importlib.reload(parquet_bloom)",
    ],
)
def test_prune_stays_the_function_whatever_is_imported(code):
    done = in_a_new_process(f"import parquet_bloom\n{code}\nprint(parquet_bloom.prune.__qualname__)\n")
    assert (done.stdout, done.stderr) == ("prune\n", "")


def test_threads_may_ask_first():
    code = """
import threading, parquet_bloom
barrier, found, failed = threading.Barrier(16), [], []
def ask(names):
    barrier.wait()
    try:
        found.append([getattr(parquet_bloom, name) for name in names])
    except BaseException as error:
        failed.append(error)
names = [name for name in parquet_bloom.__all__]
threads = [threading.Thread(target=ask, args=(names[i:] + names[:i],)) for i in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed, len(found), len({frozenset(map(id, values)) for values in found}))
"""
    done = in_a_new_process(code)
    assert (done.stdout, done.stderr) == ("[] 16 1\n", "")


def test_classes_are_pickled_into_a_new_process():
    data = pickle.dumps(
        [parquet_bloom.MetadataCache, parquet_bloom.PruneReport, parquet_bloom.errors.KernelError("no")]
    )
    code = f"import pickle; print([type(x).__name__ for x in pickle.loads({data!r})])"
    assert in_a_new_process(code).stdout == "['type', 'type', 'KernelError']\n"


def test_a_kernel_that_cannot_be_is_one_line():
    done = in_a_new_process(
        "from parquet_bloom.cli import main; sys.exit(main(['show', '.']))", PARQUET_BLOOM_SIMD="foo"
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: PARQUET_BLOOM_SIMD=foo is not supported: ")
    assert len(done.stderr.splitlines()) == 1
    done = in_a_new_process("import parquet_bloom\nparquet_bloom.open", PARQUET_BLOOM_SIMD="foo")
    assert "parquet_bloom.errors.KernelError: PARQUET_BLOOM_SIMD=foo is not supported: " in done.stderr.splitlines()[-1]


LESS = """
import os, sys
sys.modules["fcntl"] = None
for name in "pread preadv pwrite O_CLOEXEC O_NONBLOCK O_NOFOLLOW O_DIRECTORY geteuid fchown fchmod".split():
    if hasattr(os, name):
        delattr(os, name)
"""


def test_a_system_without_posix_has_all_but_local_files(tmp_path):
    """Every module is imported, and each way to a local file ends in one line that says why."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = f"""{LESS}
import contextlib, importlib, pkgutil
import parquet_bloom
for module in pkgutil.walk_packages(parquet_bloom.__path__, "parquet_bloom."):
    if not module.name.startswith(("parquet_bloom.spark", "parquet_bloom.__main__", "parquet_bloom.core.kernels.")):
        importlib.import_module(module.name)
import pyarrow as pa
path = {str(tmp_path / "a.parquet")!r}
filter = parquet_bloom.SplitBlockBloomFilter.from_ndv(100)
filter.insert([1])
assert 1 in filter
for use in (
    lambda: parquet_bloom.open(path),
    lambda: parquet_bloom.embed(path, ["id"]),
    lambda: parquet_bloom.read_table(path, "id = 1"),
    lambda: parquet_bloom.read_table([path], "id = 1"),
    lambda: parquet_bloom.verify(path),
    lambda: parquet_bloom.write_table(pa.table({{"id": [1]}}), path, ["id"]),
    lambda: parquet_bloom.DiskMetadataCache({str(tmp_path)!r}),
):
    try:
        use()
    except parquet_bloom.errors.StorageError as error:
        print(error.problem)
"""
    done = in_a_new_process(code)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["local files need a POSIX system; object stores do not"] * 7
