"""The pages in `docs/`: their examples run and print what the pages say, and their links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.documents import doc_blocks

import parquet_bloom
from parquet_bloom import cli

PAGES = sorted(doc_blocks.PROJECT.glob("docs/**/*.md"))
PUBLIC = ["parquet_bloom"] + [
    f"parquet_bloom.{name}" for name in ("types", "errors", "file", "filter", "lake", "orc", "spark", "tables", "zones")
]
ADAPTERS = "parquet_bloom.adapters."
LINKED = sorted([*doc_blocks.PROJECT.glob("*.md"), *doc_blocks.PROJECT.glob("examples/*.md"), *PAGES])


def name(page: Path) -> str:
    return str(page.relative_to(doc_blocks.PROJECT))


@pytest.fixture(autouse=True)
def not_waiting() -> None:
    """An index's writer waits as it does elsewhere, so that the files of the pages' lakes are known by their times."""


@pytest.mark.ci
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_print_what_the_page_says(page, tmp_path):
    doc_blocks.check(page, tmp_path)


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    for link in doc_blocks.links(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(doc_blocks.PROJECT), f"{link} leads out of the project"
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in doc_blocks.anchors(target.read_text("utf-8")), f"{path or name(page)} has no #{anchor}"


def test_the_indexes_have_every_page():
    folders = [doc_blocks.PROJECT / "docs", doc_blocks.PROJECT / "docs" / "reference" / "api"]
    indexes = [folder / "README.md" for folder in folders]
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in indexes
        for link in doc_blocks.links(index.read_text("utf-8"))
    }
    assert linked >= set(PAGES) - set(indexes)


def test_the_site_has_every_page():
    listed = re.findall(
        r"^ *- (?:[\w ]+: )?([\w/-]+\.md)$", (doc_blocks.PROJECT / "mkdocs.yml").read_text("utf-8"), re.M
    )
    pages = [path for path in listed if not path.startswith("project/")]  # pages that lie elsewhere in the project
    assert sorted(pages) == sorted(page.relative_to(doc_blocks.PROJECT / "docs").as_posix() for page in PAGES)


def list_entries() -> list[str]:
    return [entry for page in PAGES for entry in doc_blocks.entries(page.read_text("utf-8"))]


def test_every_adapter_is_described():
    """By name: their modules are imported where their libraries are installed."""
    names = {entry.rpartition(".")[2] for entry in list_entries() if entry.startswith(ADAPTERS)}
    assert names - {"Plugin"} == set(importlib.import_module("parquet_bloom.adapters").__all__)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_described(module):
    described = [_resolve(entry) for entry in list_entries() if not entry.startswith(ADAPTERS)]
    imported = importlib.import_module(module)
    # The errors have no list: all of them are public.
    names = getattr(imported, "__all__", None) or [name for name in vars(imported) if name.endswith("Error")]
    values = {name: getattr(imported, name) for name in names}
    assert values
    assert not [name for name, value in values.items() if not inspect.ismodule(value) and value not in described]


def _list_docstrings() -> dict[str, str]:
    """The docstrings of public functions and classes, and of the classes' own and inherited methods, by their names."""
    found: dict[int, tuple[str, str]] = {}  # a name may be public in several modules
    for module in PUBLIC:
        for name, value in vars(importlib.import_module(module)).items():
            if name.startswith("_") or not getattr(value, "__module__", "").startswith("parquet_bloom"):
                continue
            members = inspect.getmembers(value) if inspect.isclass(value) else []
            for path, member in [(name, value), *((f"{name}.{each}", member) for each, member in members)]:
                text = inspect.getdoc(member) if callable(member) else None
                if text and ">>>" in text:
                    found.setdefault(hash(text), (f"{module}.{path}", text))
    return dict(found.values())


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    for module in PUBLIC:
        imported = importlib.import_module(module)
        for name in getattr(imported, "__all__", ()):
            getattr(imported, name)  # many come at their first use
    return _list_docstrings()


def test_every_name_of_the_root_has_an_example():
    texts = {name: inspect.getdoc(getattr(parquet_bloom, name)) for name in parquet_bloom.__all__}
    assert [name for name, text in texts.items() if ">>>" not in text] == ["errors", "types"]
    assert [name for name, text in texts.items() if "+SKIP" in text] == ["iceberg"]


def test_every_public_function_has_an_example():
    public = [getattr(importlib.import_module(module), "__all__", ()) for module in PUBLIC]
    functions = {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module, names in zip(PUBLIC, public, strict=True)
        for name in names
    }
    # Those take what only this package's own code has.
    internal = {f"parquet_bloom.{name}" for name in ("orc.is_orc", "orc.keying", "orc.keying_of", "zones.keying")}
    without = {
        name
        for name, value in functions.items()
        if inspect.isfunction(value) and ">>>" not in (inspect.getdoc(value) or "")
    }
    assert without == internal


@pytest.mark.ci
def test_examples_of_docstrings_give_what_they_say(docstrings, tmp_path):
    assert len(docstrings) > 40
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.REPORT_NDIFF)
    for number, (name, text) in enumerate(docstrings.items()):
        example = doctest.DocTestParser().get_doctest(text, {"parquet_bloom": parquet_bloom}, name, None, None)
        for line in example.examples:
            compile(line.source, name, "single")
        if all(line.options.get(doctest.SKIP) for line in example.examples):
            continue  # such as Spark's: only shown
        folder = shutil.copytree(doc_blocks.make_template("docstrings"), tmp_path / str(number))
        said = io.StringIO()
        with contextlib.chdir(folder):
            done = runner.run(example, out=said.write)
        assert done.attempted, name
        assert not done.failed, said.getvalue()


def _resolve(entry: str) -> object:
    module, _, name = entry.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_every_command_is_described_with_an_example(monkeypatch):
    monkeypatch.syspath_prepend(str(doc_blocks.PROJECT / "tools"))
    commands = importlib.import_module("site_pages.commands")
    sections = dict(re.findall(r"^## ([a-z -]+)\n(.*?)(?=^## |\Z)", commands.describe_commands(), re.M | re.S))
    assert set(cli.COMMANDS) <= set(sections)
    assert [name for name in sections if "```shell\n" not in sections[name]] == []
    assert "--fpp FPP" in sections["embed"]
    assert commands.MARKER in (doc_blocks.PROJECT / "docs" / "reference" / "cli.md").read_text("utf-8")


def test_each_parameter_of_a_group_is_one_of_its_own(monkeypatch):
    monkeypatch.syspath_prepend(str(doc_blocks.PROJECT / "tools"))
    move = importlib.import_module("site_pages.parameters").move_descriptions
    given = "Parameters\n---\none, two,\n    *rest : as\n    before.\nlast : other.\n\nNotes\n---\na : b"
    entries = [f"{name}\n    as\n    before.\n" for name in ("one", "two", "*rest")]
    assert move(given) == f"Parameters\n---\n{''.join(entries)}last\n    other.\n\nNotes\n---\na : b"


@pytest.mark.ci
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sources_that_are_named_are_there(page):
    files = [f"/{path}" for path in doc_blocks.sources()]
    for named in doc_blocks.named_sources(page.read_text("utf-8")):
        assert any(fnmatch(path, f"*/{named}") for path in files), f"there is no {named}"
