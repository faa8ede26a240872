"""The layers hold: modules import only from lower layers or from their own folder, and some things stand in one place.

Imports and cimports are read from the sources, not run, so that one in a function or under TYPE_CHECKING counts too.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "parquet_bloom"

# A unit is a module or folder directly below the package. errors and redaction may be imported by all; the
# package itself, which holds the public names, is above everything, and no module of the package imports it.
LAYERS = {
    "redaction": -1,  # errors send their texts through it
    "errors": 0,
    "core": 1,
    "util": 1,
    "metadata": 2,
    "hashing": 2,
    "variant": 2,
    "storage": 2,
    "filter": 3,
    "page": 3,
    "predicate": 3,
    "file": 4,
    "orc": 5,
    "zones": 5,
    "tables": 5,
    "lake": 6,
    "scan": 7,
    "change": 8,
    "spark": 9,
    "serve": 9,
    "adapters": 9,
    "cli": 10,
    "types": 11,
    "__init__": 12,
    "__main__": 12,
}

# Lines of a module; more do not fit in a head.
MOST_LINES = 800

# What opens a file by its path, by the name it is imported from. Only the unit `storage` calls these.
OPENERS = {
    "open",
    "builtins.open",
    "codecs.open",
    "gzip.open",
    "io.FileIO",
    "io.open",
    "io.open_code",
    "mmap.mmap",
    "os.fdopen",
    "os.open",
    "pyarrow.OSFile",
    "pyarrow.input_stream",
    "pyarrow.memory_map",
    "pyarrow.output_stream",
    "tempfile.NamedTemporaryFile",
    "tempfile.SpooledTemporaryFile",
    "tempfile.TemporaryFile",
    "tempfile.mkstemp",
}
OPENING_METHODS = {
    "open_input_file",
    "open_input_stream",
    "open_output_stream",
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
}
C_OPENERS = re.compile(r"(?<![\w.])(?<!def )(f?open|creat|mmap|io\.open|os\.f?d?open)\s*\(")


LAST_OF_OPENERS = OPENING_METHODS | {name.rpartition(".")[2] for name in OPENERS}


@cache
def walk(source: str) -> tuple[ast.AST, ...]:
    """Parse a Python source, once in all tests, and return its tree's nodes, the module first."""
    return tuple(ast.walk(ast.parse(source)))


def called_name(call: ast.Call) -> str:
    """Return the last part of the name that is called; empty if it has none."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def unit_of(path: str) -> str:
    """Return the unit that a source of the package belongs to: `parquet_bloom/file/write/x.py` is of `file`."""
    return PurePosixPath(path).parts[1].partition(".")[0]


def absolute(path: str, module: str, level: int) -> str:
    """Resolve a relative import of a source: `from ..core import x` in `parquet_bloom/file/a.py`."""
    if level == 0:
        return module
    parents = PurePosixPath(path).parts[:-level]
    return ".".join([*parents, *filter(None, [module])])


def python_imports(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of what a Python source imports; `from a import b` is `a.b`."""
    for node in walk(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(path, node.module or "", node.level)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    name = argument.value.lstrip(".")
                    yield node.lineno, absolute(path, name, len(argument.value) - len(name))


def without_texts(source: str) -> str:
    """Blank strings and comments of a Cython source, and join continued lines, keeping the count of lines."""
    texts = r"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|\#[^\n]*"
    source = re.sub(texts, lambda text: "\n" * text.group().count("\n"), source, flags=re.DOTALL)
    source = source.replace("\\\n", " ")
    return re.sub(r"(?<=import)\s*\(([^()]*)\)", lambda names: " " + " ".join(names.group(1).split()), source)


def cython_imports(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of what a Cython source imports or cimports."""
    statement = re.compile(r"\s*(?:from\s+(\.*)\s*([\w.]*)\s+)?c?import\s+([\w.,* ]+)")
    for number, line in enumerate(without_texts(source).splitlines(), 1):
        for part in line.split(";"):
            if matches := statement.match(part):
                dots, module, names = matches.groups()
                for name in filter(None, (word.split(" as ")[0].strip() for word in names.split(","))):
                    base = absolute(path, module, len(dots)) if module or dots else ""
                    yield number, f"{base}.{name}" if base else name


def python_openers(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each call that opens a file, followed through imports and their aliases."""
    meaning = {"open": "open"}
    for node in walk(source):
        if isinstance(node, ast.Import):
            meaning |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            meaning |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
    for node in ast.iter_child_nodes(walk(source)[0]):
        if isinstance(node, ast.FunctionDef) and node.name == "open":
            meaning["open"] = "the module's own"
    for node in walk(source):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr not in LAST_OF_OPENERS:
                continue
            first, dot, rest = ast.unparse(node.func).partition(".")
            name = meaning.get(first, first) + dot + rest
            if name in OPENERS or (dot and rest.rpartition(".")[2] in OPENING_METHODS):
                yield node.lineno, name


def violations(sources: dict[str, str]) -> list[str]:
    """Return what breaks the rules in sources given by their paths, each as `path:line: what`."""
    results = []
    units = {unit_of(path) for path in sources}
    modules = {module_of(path) for path in sources}
    lazy = {module_of(path) for path, source in sources.items() if "make_lazy(globals()" in source}
    for path, source in sorted(sources.items()):
        unit = unit_of(path)
        if unit not in LAYERS:
            results.append(f"{path}:1: {unit} has no layer; give it one in LAYERS")
            continue
        is_python = path.endswith((".py", ".pyi"))
        imports = python_imports(path, source) if is_python else cython_imports(path, source)
        for line, name in imports:
            package, _, rest = name.partition(".")
            if package in ("pyspark", "py4j") and unit != "spark":
                results.append(f"{path}:{line}: only spark/ imports {package}")
            if package in ("ray", "daft", "dbt") and unit != "adapters":
                results.append(f"{path}:{line}: only adapters/ imports {package}")
            if package in ("fastapi", "h11", "pydantic", "starlette", "uvicorn") and unit != "serve":
                results.append(f"{path}:{line}: only serve/ imports {package}")
            if package != PACKAGE:
                continue
            other = rest.partition(".")[0]
            if other not in units:
                other = "__init__"  # a public name of the package
            if other != unit and LAYERS.get(other, 0) >= LAYERS[unit]:
                results.append(
                    f"{path}:{line}: {unit} (layer {LAYERS[unit]}) imports {name}: {other} (layer {LAYERS[other]})"
                )
            elif name.rpartition(".")[0] in lazy and name not in modules:
                results.append(f"{path}:{line}: {name} is imported from where it is lazy, not from its module")
        if unit != "storage":
            if is_python:
                opened = python_openers(source)
            else:
                lines = enumerate(without_texts(source).splitlines(), 1)
                opened = ((line, call.group(1)) for line, text in lines for call in C_OPENERS.finditer(text))
            results += [f"{path}:{line}: only storage opens files: {name}" for line, name in opened]
    return results


def module_of(path: str) -> str:
    """Return the dotted name of a source's module; a folder's `__init__` is the folder."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules of the package that each module imports, wherever in its sources; .pyx and .pxd are one."""
    modules = {module_of(path) for path in sources}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for path, source in sources.items():
        is_python = path.endswith((".py", ".pyi"))
        for _, name in python_imports(path, source) if is_python else cython_imports(path, source):
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name and name != module_of(path):
                graph[module_of(path)].add(name)
    return graph


def find_circle(sources: dict[str, str]) -> list[str]:
    """Return modules of which each imports the one before it, and the first is the last; none if there are none."""
    try:
        TopologicalSorter(import_graph(sources)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def mutual_folders(sources: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of folders, neither inside the other, that import each other."""
    packages = {module_of(path) for path in sources if path.endswith("__init__.py")}

    def folder_of(module: str) -> str:
        return module if module in packages else module.rpartition(".")[0]

    pairs = {(folder_of(module), folder_of(name)) for module, names in import_graph(sources).items() for name in names}
    return sorted(
        (one, other)
        for one, other in pairs
        if one < other and (other, one) in pairs and not other.startswith(f"{one}.")
    )


def names_that_stand_twice(sources: dict[str, str]) -> list[str]:
    """Return the names of modules, and of classes of modules, that stand more than once in the package."""
    modules = sorted(path for path in sources if path.endswith((".py", ".pyx")) and not path.endswith("__init__.py"))
    names = Counter(PurePosixPath(path).stem for path in modules)
    names += Counter(
        f"class {node.name}"
        for path in modules
        if path.endswith(".py")
        for node in ast.iter_child_nodes(walk(sources[path])[0])
        if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def long_modules(sources: dict[str, str]) -> list[str]:
    """Return the modules that are longer than what one head holds; Cython counts less, its loops are long."""
    return [path for path, source in sources.items() if path.endswith(".py") and source.count("\n") > MOST_LINES]


def package_sources() -> dict[str, str]:
    paths = [path for suffix in ("py", "pyi", "pyx", "pxd", "pxi") for path in (ROOT / PACKAGE).glob(f"**/*.{suffix}")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def test_the_package_keeps_to_its_layers() -> None:
    sources = package_sources()
    assert {unit_of(path) for path in sources} >= {"core", "storage", "file", "spark", "cli"}
    assert violations(sources) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert find_circle(package_sources()) == []
    circle = {"a.py": "from .d import b", "d/b.py": "if x:\n    from .c import x", "d/c.pyx": "from ..a cimport y"}
    assert len(find_circle({f"{PACKAGE}/{path}": source for path, source in circle.items()})) == 4


def test_folders_beside_each_other_import_one_way() -> None:
    assert mutual_folders(package_sources()) == []


def test_every_name_of_a_module_or_class_stands_once() -> None:
    assert names_that_stand_twice(package_sources()) == []


def test_no_module_is_too_long() -> None:
    assert long_modules(package_sources()) == []


def test_each_folder_says_what_lives_in_it() -> None:
    for path, source in package_sources().items():
        if path.endswith("__init__.py"):
            assert ast.get_docstring(ast.parse(source)), path


def test_architecture_names_what_exists() -> None:
    lines = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8").splitlines()
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("[!.]*/**/*") if path.suffix in (".py", ".pyx")]
    places = {f"/{path}" for path in files} | {
        f"/{parent}/" for path in files for parent in PurePosixPath(path).parents
    }
    named = {name for line in lines for name in re.findall(r"`([\w./]+(?:\.pyx?|/))`", line) if "NAME" not in name}
    assert len(named) > 50
    assert not [name for name in sorted(named) if not any(place.endswith(f"/{name}") for place in places)]


def test_importing_the_package_starts_no_spark() -> None:
    code = f"import sys, {PACKAGE}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


LAID_OUT = {f"{PACKAGE}/{unit}.py": "" for unit in LAYERS} | {
    f"{PACKAGE}/lake/__init__.py": "__getattr__, __dir__ = make_lazy(globals(), {})",
    f"{PACKAGE}/lake/index.py": "",
}


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("core/a.py", "from parquet_bloom.hashing import b", "imports parquet_bloom.hashing.b"),
        ("core/a.py", "from ..file import b", "imports parquet_bloom.file.b"),
        ("core/deep/a.py", "from ... import file", "imports parquet_bloom.file"),
        ("core/a.py", "def f():\n    from .. import scan", "imports parquet_bloom.scan"),
        (
            "core/a.py",
            "if TYPE_CHECKING:\n    from ..storage import Source",
            "imports parquet_bloom.storage.Source",
        ),
        ("metadata/a.py", "import parquet_bloom.hashing.x", "imports parquet_bloom.hashing.x"),
        ("filter.py", "from .predicate import x", "imports parquet_bloom.predicate.x"),
        ("file/a.py", "from parquet_bloom import open", "imports parquet_bloom.open"),
        ("file/a.py", "import_module('..scan', __package__)", "imports parquet_bloom.scan"),
        ("core/a.pyx", "cimport x, parquet_bloom.file.b as y", "imports parquet_bloom.file.b"),
        (
            "core/a.pyx",
            "from ..metadata.b cimport (\n    c, # why\n    d)",
            "imports parquet_bloom.metadata.b",
        ),
        ("core/a.pxd", "from parquet_bloom.lake \\\n  cimport b", "imports parquet_bloom.lake.b"),
        ("core/a.pxi", "x = 1; from .. import cli", "imports parquet_bloom.cli"),
        ("scan/a.py", "from pyspark.sql import DataFrame", "only spark/ imports pyspark"),
        ("cli/a.py", "def f():\n    import py4j.x", "only spark/ imports py4j"),
        ("scan/a.py", "import ray.data", "only adapters/ imports ray"),
        ("spark/a.py", "from daft.io.source import DataSource", "only adapters/ imports daft"),
        ("lake/a.py", "import fastapi", "only serve/ imports fastapi"),
        ("cli/a.py", "def f():\n    from uvicorn import run", "only serve/ imports uvicorn"),
        ("serve/a.py", "from ..cli import output", "imports parquet_bloom.cli.output"),
        ("file/a.py", "with open('x') as f: pass", "only storage opens files: open"),
        ("file/a.py", "import os as o\no.open('x', 0)", "only storage opens files: os.open"),
        ("file/a.py", "from io import open as o\no('x')", "only storage opens files: io.open"),
        (
            "cli/a.py",
            "import pyarrow as pa\npa.memory_map('x')",
            "only storage opens files: pyarrow.memory_map",
        ),
        (
            "cli/a.py",
            "from pathlib import Path\nPath('x').read_text()",
            "only storage opens files: Path('x').read_text",
        ),
        ("core/a.pyx", "f = fopen(path, 'r')", "only storage opens files: fopen"),
        ("extra/a.py", "", "extra has no layer"),
        ("scan/a.py", "from ..lake import LakeIndex", "parquet_bloom.lake.LakeIndex is imported from where it is lazy"),
    ],
)
def test_a_violation_is_seen(path: str, source: str, expected: str) -> None:
    results = violations(LAID_OUT | {f"{PACKAGE}/{path}": source})
    assert results
    assert all(expected in text for text in results)
