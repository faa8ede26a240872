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

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.types import PruneReport

# Modules whose names are imported at their first use.
LAZY = ["parquet_bloom", "parquet_bloom.types", "parquet_bloom.file", "parquet_bloom.lake", "parquet_bloom.tables"]

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
    ours = {name.partition(".")[2] for name in loaded if name.startswith("parquet_bloom") and "redaction" not in name}
    assert ours == {"", "errors", "types", "util", "util.lazy"}  # and what hides secrets in the errors' texts


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "not_needed"),
    [
        ("fpp_for", ["numpy", "pyarrow"]),
        ("open", RARE),
        ("embed", RARE),
        ("read_table", RARE),
        ("LakeIndex", RARE),
        ("types.PruneReport", RARE),
        ("types.IndexStats", ["numpy", *RARE]),
        ("lake.LakeIndex", RARE),
    ],
)
def test_a_name_imports_what_it_needs(name, not_needed):
    module, _, name = f"parquet_bloom.{name}".rpartition(".")
    done = in_a_new_process(f"from {module} import {name}; print(*sys.modules)")
    assert done.stderr == ""
    assert not set(not_needed) & set(done.stdout.split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_the_command_line_starts_without_what_commands_need(arguments):
    code = f"from parquet_bloom.cli import main\ncode = main({arguments})\nprint(code, *sys.modules)"
    done = in_a_new_process(code)
    code, *loaded = done.stdout.splitlines()[-1].split()
    assert code == "0"
    assert not {"numpy", "pyarrow", "sqlglot", "obstore", "thrift"} & set(loaded)


@pytest.mark.parametrize("name", LAZY)
def test_the_three_lists_of_names_agree(name):
    module = importlib.import_module(name)
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    for_checkers = {
        alias.name: "." + (node.module or "")
        for node in ast.walk(typed)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_checkers == module._HOMES
    others = ["errors", "types"] if module is parquet_bloom else []
    assert sorted(module.__all__) == module.__all__ == sorted([*for_checkers, *others])
    for name, home in module._HOMES.items():
        assert getattr(module, name) is getattr(importlib.import_module(home, module.__package__), name), name


def test_the_root_has_few_names():
    """What is used, and no more: the types of what is returned are in `types`."""
    assert len(parquet_bloom.__all__) <= 26
    assert not {*parquet_bloom.__all__} & {*parquet_bloom.types.__all__}


@pytest.mark.parametrize(
    "taken",
    [
        "parquet_bloom.dataset(path)",
        "parquet_bloom.dataset(path).scan()",
        "next(parquet_bloom.dataset(path).get_fragments())",
        "parquet_bloom.prune(path, 'id = 1')",
        "parquet_bloom.prune(path, 'id = 1').files[0]",
        "parquet_bloom.prune(path, 'id = 1').files[0].row_groups[0]",
        "parquet_bloom.embed(path, ['id'], replace=True)",
        "parquet_bloom.embed(path, ['id'], replace=True).filters[0]",
        "parquet_bloom.drop(path, dry_run=True)",
        "parquet_bloom.drop(path, dry_run=True).filters[0]",
        "parquet_bloom.verify(path)",
        "parquet_bloom.verify(path).chunks[0]",
        "parquet_bloom.advise(path)",
        "parquet_bloom.advise(path)['id']",
        "parquet_bloom.open(path)",
        "next(parquet_bloom.open(path).chunks())",
        "parquet_bloom.probe(parquet_bloom.open(path).chunks(), [1])",
        "parquet_bloom.SplitBlockBloomFilter(32).variant",
    ],
)
def test_types_has_the_type_of_what_functions_return(taken, tmp_path):
    path = tmp_path / "a.parquet"
    parquet_bloom.write_table(pa.table({"id": [1]}), path, ["id"])
    found = type(eval(taken, {"parquet_bloom": parquet_bloom, "path": path}))
    assert getattr(parquet_bloom.types, found.__name__) is found


@pytest.mark.parametrize("face", ["file", "lake", "orc", "tables", "zones"])
def test_folders_that_are_public_have_a_face(face):
    module = importlib.import_module(f"parquet_bloom.{face}")
    assert module.__all__
    for name in module.__all__:
        found = getattr(module, name)
        if name != "Fragment":  # of a dataset in `types`, of Lance's in `zones`
            assert getattr(parquet_bloom.types, name, found) is found


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'parquet_bloom' has no attribute 'opne'"):
        parquet_bloom.opne  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'opne' from 'parquet_bloom'"):
        from parquet_bloom import opne  # noqa: F401


@pytest.mark.ci
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


@pytest.mark.ci
@pytest.mark.parametrize(
    "code",
    [
        "import parquet_bloom.scan.plan.plan_scan",
        "from parquet_bloom.scan.plan_report import PruneReport",
        "parquet_bloom.types.PruneReport",
        "import parquet_bloom.cli.commands.prune_command",
        "from parquet_bloom import prune",
        "import importlib; importlib.reload(parquet_bloom)",
    ],
)
def test_prune_stays_the_function_whatever_is_imported(code):
    done = in_a_new_process(f"import parquet_bloom\n{code}\nprint(parquet_bloom.prune.__qualname__)\n")
    assert (done.stdout, done.stderr) == ("prune\n", "")


@pytest.mark.ci
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
    data = pickle.dumps([parquet_bloom.MetadataCache, PruneReport, parquet_bloom.errors.KernelError("no")])
    code = f"import pickle; print([type(x).__name__ for x in pickle.loads({data!r})])"
    assert in_a_new_process(code).stdout == "['type', 'type', 'KernelError']\n"


@pytest.mark.ci
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


@pytest.mark.ci
def test_a_system_without_posix_has_all_but_local_files(tmp_path):
    """Every module is imported, and each way to a local file ends in one line that says why."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = f"""{LESS}
import contextlib, importlib, importlib.util, pkgutil
import parquet_bloom
left_out = ["parquet_bloom.spark", "parquet_bloom.adapters.", "parquet_bloom.__main__", "parquet_bloom.core.kernels."]
left_out += [] if importlib.util.find_spec("fastapi") else ["parquet_bloom.serve"]  # wheels are tested without extras
for module in pkgutil.walk_packages(parquet_bloom.__path__, "parquet_bloom."):
    if not module.name.startswith(tuple(left_out)):
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
