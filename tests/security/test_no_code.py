"""Nothing that comes from a file or a request is run: no pickle, no eval, no module that data names.

The sources are read, functions and all, so that what is imported only when it is needed counts too. Whatever could run
code is listed in `ALLOWED` with the reason why it cannot be reached by data.
"""

from __future__ import annotations

import ast
import os
import pickle
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.default

ROOT = Path(__file__).parents[2]
PACKAGE = "parquet_bloom"

# Modules that run what they are given, parse what can hold more than data, or reach around Python.
MODULES = {
    "cloudpickle", "code", "codeop", "commands", "copyreg", "ctypes", "dill", "imp", "importlib", "jinja2", "joblib",
    "marshal", "multiprocessing", "pickle", "pickletools", "pkgutil", "pty", "pydoc", "runpy", "shelve", "subprocess",
    "webbrowser", "xml", "yaml", "zipimport", "pyspark.cloudpickle", "lxml",
}  # fmt: skip
# Calls, by the end of their dotted name, whatever the module is called where they stand.
CALLS = {
    "__import__", "allow_pickle", "compile", "eval", "exec", "execfile", "find_spec", "import_module", "load_module",
    "mktemp", "popen", "read_pickle", "register_extension_type", "set_auto_load", "spawn", "startfile", "system",
    "unpickle", "urlopen",
}  # fmt: skip

PICKLERS = {"pickle", "cloudpickle", "load", "loads"}
DRIVER = "what executors send the driver, made by this package's own tasks; what is in files comes as Arrow"
ALLOWED = {
    ("util/lazy.py", "importlib.import_module"): "names of this package's modules, from a table in it",
    ("util/lazy.py", "import_module"): "names of this package's modules, from a table in it",
    ("util/lazy.py", "importlib.util.find_spec"): "whether a package that is optional is installed",
    ("util/lazy.py", "find_spec"): "whether a package that is optional is installed",
    ("cli/lazy_group.py", "importlib.import_module"): "a command's module: a name in the table of commands",
    ("cli/lazy_group.py", "import_module"): "a command's module: a name in the table of commands",
    ("core/dispatch.py", "importlib.import_module"): "kernels: names in a list, chosen by the processor",
    ("core/dispatch.py", "import_module"): "kernels: names in a list, chosen by the processor",
    ("core/dispatch.py", "importlib.util.find_spec"): "whether such a module was built",
    ("core/dispatch.py", "find_spec"): "whether such a module was built",
    (
        "predicate/arrow_expression.py",
        "ctypes",
    ): "metadata of an expression that is in memory, by Arrow's C interface",
    ("page/report_page.py", "pkgutil"): "markup, style and script of the page, from this package",
    ("spark/executor_archive.py", "importlib.metadata"): "which distributions go into the archive",
    ("spark/executor_archive.py", "importlib.machinery.EXTENSION_SUFFIXES"): "what compiled modules end in",
    ("spark/jobs/index_job.py", "pickle"): "the files of a task, from the driver, and what its tasks send back",
    ("spark/jobs/file_tasks.py", "pickle"): "the files of a task, from the driver, and what became of them",
    ("spark/jobs/run_files.py", "pickle"): DRIVER,
    ("spark/upsert_into_table.py", "pickle"): DRIVER,
    ("spark/jobs/run_files.py", "pyspark.cloudpickle"): "written only: whether a task can be sent to executors",
    ("storage/local/copy_front.py", "ctypes"): "fallocate, sync_file_range",
    (
        "storage/local/system_calls.py",
        "ctypes",
    ): "statfs, renameat2 and other functions of the C library, by constant names",
    ("zones/lance_container.py", "importlib.import_module"): "'lance' and 'lance.file'",
    ("zones/lance_container.py", "import_module"): "'lance' and 'lance.file'",
}


@cache
def nodes_of(source: str) -> list[ast.AST]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Call, ast.Import, ast.ImportFrom))]


def find_calls(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of all that could run code in a Python source."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_module(alias.name))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                full_name = f"{node.module}.{alias.name}"
                if _is_module(full_name):
                    yield (
                        node.lineno,
                        full_name
                        if node.module in ("importlib", "importlib.util", "importlib.machinery")
                        or (full_name in MODULES)
                        else str(node.module),
                    )
        elif isinstance(node, ast.Call):
            last = _called(node)
            if last in CALLS and not (last == "compile" and ast.unparse(node.func) == "re.compile"):
                yield node.lineno, last
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg in ("shell", "allow_pickle") and not (
                    isinstance(value, ast.Constant) and not value.value
                ):
                    yield node.lineno, str(keyword.arg)


def _called(node: ast.Call) -> str:
    """The last part of a called name."""
    return getattr(node.func, "attr", None) or getattr(node.func, "id", "")


def _is_module(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in MODULES)


@pytest.mark.ci
def test_nothing_in_the_package_runs_what_it_is_given() -> None:
    seen = set()
    wrong = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        location = path.relative_to(ROOT / PACKAGE).as_posix()
        for line, name in find_calls(path.read_text("utf-8")):
            seen.add((location, name))
            if (location, name) not in ALLOWED:
                wrong.append(f"{location}:{line}: {name}")
    assert wrong == []
    assert seen == set(ALLOWED), "reasons for what is not there"
    for path in (ROOT / PACKAGE).rglob("*.py[xd]*"):
        text = re.sub(r"#.*", "", path.read_text("utf-8")) if path.suffix in (".pyx", ".pxd") else ""
        assert not re.search(r"\b(pickle|marshal|eval|exec|system|popen)\b\s*[(.]", text), path


def test_pickles_are_loaded_in_four_functions_only() -> None:
    """They load what the driver of a Spark job has sent to its tasks, and what these send back."""
    loads = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        for node in nodes_of(path.read_text("utf-8")):
            if isinstance(node, ast.Call) and _called(node) in ("load", "loads", "Unpickler"):
                if _called(node) != "Unpickler" and ast.unparse(node.func).partition(".")[0] not in PICKLERS:
                    continue
                loads.append((path.name, ast.unparse(node.args[0])))
    assert loads == [
        ("file_tasks.py", "packed"),
        ("index_job.py", "bytes(row['data'])"),
        ("index_job.py", "self.packed[task]"),
        ("run_files.py", "result"),
    ]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import pickle", "pickle"),
        ("def f():\n    from yaml import load", "yaml"),
        ("import xml.etree.ElementTree as e", "xml.etree.ElementTree"),
        ("x = eval(y)", "eval"),
        ("run(['ls'], shell=flag)", "shell"),
        ("np.load(f, allow_pickle=True)", "allow_pickle"),
        ("tempfile.mktemp()", "mktemp"),
        ("os.system('ls')", "system"),
        ("importer = __import__(name)", "__import__"),
    ],
)
def test_the_test_sees(source: str, name: str) -> None:
    assert [result for _, result in find_calls(source)] == [name]


# -------------------------------------------------------------------------------------------- data that would run code


class Bomb:
    """Unpickled, it makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "arrow.PyExtensionType", "nobody.knows"])
def test_types_that_files_bring_along_are_not_unpickled(tmp_path: Path, name: str) -> None:
    """In the Arrow schema that Parquet files carry, in an Arrow file, and in the schema of a zone index."""
    mark = tmp_path / "mark"
    message = {"ARROW:extension:name": name, "ARROW:extension:metadata": pickle.dumps(Bomb(str(mark)))}
    schema = pa.schema(
        [pa.field("id", pa.int64(), metadata=message), pa.field("t", pa.string(), metadata=message)], message
    )
    table = pa.table([pa.array([1, 2, 3]), pa.array(["a", "b", "c"])], schema=schema)
    lake = tmp_path / "lake"
    lake.mkdir()
    path = lake / "a.parquet"
    pq.write_table(table, path)
    parquet_bloom.embed(path, columns=["id", "t"])
    assert parquet_bloom.verify(path).ok
    assert parquet_bloom.read_table(path, "id = 2").num_rows == 1
    parquet_bloom.prune(path, "id = 2").to_html(check=True)
    with LakeIndex.create(tmp_path / "index", ["id", "t"], lake=str(lake)) as index:
        index.append()
        assert len(index.lookup("t", ["b"])[0]) == 1
    for kind in ("parquet", "arrow"):
        zones.build(path, "id", tmp_path / f"zones.{kind}")
        with zones.open(tmp_path / f"zones.{kind}") as directory:
            full_table = directory.to_table()
        fields = [field.with_metadata(message) for field in full_table.schema]
        table_with_metadata = full_table.cast(pa.schema(fields, full_table.schema.metadata))
        if kind == "arrow":
            with pa.ipc.new_file(tmp_path / "with_metadata.arrow", table_with_metadata.schema) as writer:
                writer.write_table(table_with_metadata)
        else:
            pq.write_table(table_with_metadata, tmp_path / "with_metadata.parquet")
        try:
            with zones.open(tmp_path / f"with_metadata.{kind}") as opened:
                opened.equals(2)
        except ParquetBloomError:
            pass  # such columns are not a zone index's
    assert not mark.exists()


def test_an_index_and_a_part_hold_json_and_numbers_alone(tmp_path: Path) -> None:
    """A pickle in place of any file of an index is a broken file."""
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")
    with LakeIndex.create(tmp_path / "index", ["id"]) as index:
        index.append([str(tmp_path / "a.parquet")])
    for path in (tmp_path / "index").iterdir():
        data = path.read_bytes()
        path.write_bytes(pickle.dumps(Bomb(str(tmp_path / "mark"))))
        try:
            with LakeIndex.open(tmp_path / "index", live=False) as index:
                index.lookup("id", [2])
                index.check(1)
        except ParquetBloomError:
            pass
        path.write_bytes(data)
    assert not (tmp_path / "mark").exists()
