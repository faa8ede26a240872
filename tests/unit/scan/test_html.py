"""Test the HTML page of a report: its cells match the plan, its texts are escaped, and Chromium shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.scan.html.details import read_details
from parquet_bloom.scan.html.document import render_document
from parquet_bloom.scan.html.states import row_group_state
from parquet_bloom.scan.model.scan_plan import FilePlan, RowGroupPlan
from parquet_bloom.scan.plan_report import PruneReport

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
VOID = {"meta", "rect", "path", "circle"}


class Page(HTMLParser):
    """Reads a page: the cells of its heat map, its tags, and its text outside of styles and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[dict[str, str]] = []
        self.rows: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert not [tag for tag in self._open if tag not in VOID], "all is closed"

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        results = dict(attrs)
        if results.get("role") == "gridcell":
            self.cells.append(results)
        if results.get("role") == "row":
            self.rows.append(results["aria-label"])
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open or self._open[-1] not in ("style", "script"):
            self.text += data + "\n"

    @property
    def states(self) -> list[str]:
        return [cell["data-state"] for cell in self.cells]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with filters, one without, one in another partition; four row groups each."""
    root = tmp_path_factory.mktemp("lake")
    for number, part in enumerate((1, 1, 1, 2)):
        folder = root / f"part={part}"
        folder.mkdir(exist_ok=True)
        ids = [10 * (i * 37 % 400) + number for i in range(400)]
        if number == 0:
            ids[210] = 1005
        table = pa.table({"id": ids, "rest": [f"{i}" for i in range(400)]})
        if number == 2:
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=100)
        else:
            parquet_bloom.write_table(table, folder / f"{number}.parquet", ["id"], row_group_size=100)
    return root


@pytest.fixture(scope="module")
def report(lake: Path) -> PruneReport:
    # Within the range of all row groups; 1005 is in one, 2005 in none.
    return parquet_bloom.prune(lake, "part = 1 AND id IN (1005, 2005)")


def test_the_cells_are_what_was_decided(report: PruneReport) -> None:
    page = Page(report.to_html())
    assert len(page.rows) == 4
    decided = []
    for file in report.files:
        decided += ["partition"] if file.unopened else ["read" if d.read else "skip" for d in file.row_groups]
    drawn = [{"unfiltered": "read", "filter": "skip", "range": "skip"}.get(state, state) for state in page.states]
    assert drawn == decided
    assert "filter" in page.states
    assert page.states.count("unfiltered") == len(report.files[2].selected) > 0
    (cell,) = [cell for cell in page.cells if cell["data-state"] == "read"]
    assert "row group 2\nread\n100 rows, " in cell["aria-label"]
    assert "filter on id: 256 bytes, fpp " in cell["aria-label"]
    assert "part=1/0.parquet: 1 of 4 · " in page.rows[0]
    assert "No data was read" in page.text


def test_checked_cells_tell_where_rows_match(report: PruneReport, lake: Path) -> None:
    page = Page(report.to_html(check=True))
    assert page.states.count("matched") == 1
    assert page.states.count("vain-unfiltered") == len(report.files[2].selected)
    (cell,) = [cell for cell in page.cells if cell["data-state"] == "matched"]
    assert "1 of its rows match" in cell["aria-label"]
    assert "To look for matches, " in page.text
    assert "too little to estimate a rate" in page.text
    # By ranges alone nothing can be read for want of a filter.
    ranges = parquet_bloom.prune(lake, "id > 0")
    assert set(Page(ranges.to_html()).states) == {"read"}


def test_the_numbers_are_exact(report: PruneReport) -> None:
    total = read = 0
    for file in report.files[:3]:
        metadata = pq.read_metadata(file.path)
        for row_group in range(metadata.num_row_groups):
            of_group = metadata.row_group(row_group)
            size = sum(of_group.column(i).total_compressed_size for i in range(of_group.num_columns))
            total += size
            read += size if row_group in file.selected else 0
    result = read_details(report)
    groups = {(path, i): group for path, of_file in result.files.items() for i, group in enumerate(of_file)}
    assert sum(group.num_bytes for group in groups.values()) == total
    selected = [(file.path, i) for file in report.files for i in file.selected]
    assert sum(groups[location].num_bytes for location in selected) == read
    measured = result.measured("id")
    assert result.num_filters == {"id": 8}
    with parquet_bloom.open(report.files[0].path) as file:
        assert measured[0] == (256, file.chunk(0, "id").fpp, file.chunk(0, "id").ndv_estimate)
    assert "over 1.2 × asked" in Page(report.to_html(asked_fpp=0.01)).text


EVIL = "<img src=x onerror='alert(1)'>&\"</script></style>]]>\x1b[31m\n\u202e\udc80日本"


def test_nothing_gets_out_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / ("<b onclick=alert(1)>&\"' \x1b[31m日本" + "x" * 100)
    pq.write_table(pa.table({"<script>alert(1)</script>": ["a", "b"]}), path)
    plain = parquet_bloom.prune(tmp_path, [("<script>alert(1)</script>", "=", "a")])
    hostile = PruneReport(EVIL, [FilePlan(EVIL, (RowGroupPlan(0, True, doubts=(EVIL,) * 9),), EVIL)])
    for report in (plain, hostile):
        texts = [report._repr_html_()] + (
            [report.to_html(check=True), render_document(report, read_details(report))] if report is plain else []
        )
        for text in texts:
            text.encode()
            page = Page(text)
            assert page.tags["script"] == (1 if text.startswith("<!DOCTYPE") else 0)
            assert not page.tags.keys() & {"img", "b onclick", "a", "iframe", "link"}
            assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "href")]
            assert "\x1b" not in text
            assert "\u202e" not in text


def test_the_page_loads_nothing(report: PruneReport) -> None:
    text = report.to_html(check=True)
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|url\((?!#pb-)|@import|src=", text)
    assert "http" not in render_document(report, read_details(report)).replace("http://www.w3.org/2000/svg", "")


def test_a_page_is_written_whole_or_not_at_all(report: PruneReport, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    text = report.to_html(target)
    assert target.read_text("utf-8") == text
    assert os.listdir(tmp_path) == ["page.html"]
    with pytest.raises(errors.StorageError):
        report.to_html(tmp_path / "no" / "page.html")
    with pytest.raises(errors.ParquetBloomError, match="between 0 and 1"):
        report.to_html(asked_fpp=2)
    with pytest.raises(errors.ParquetBloomError, match="only a report made by prune"):
        PruneReport("a = 1").to_html()


def test_a_file_that_went_away_is_drawn_without_details(tmp_path: Path) -> None:
    for name in "ab":
        parquet_bloom.write_table(pa.table({"id": [1, 2]}), tmp_path / f"{name}.parquet", ["id"])
    report = parquet_bloom.prune(tmp_path, "id = 1")
    (tmp_path / "a.parquet").unlink()
    parquet_bloom.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "b.parquet", ["id"])
    page = Page(report.to_html(check=True))
    assert page.states == ["read", "read"]
    assert "could not be read again" in page.text


def many_files(count: int, groups: int) -> PruneReport:
    skipped = tuple(
        RowGroupPlan(i, False, frozenset({"filter"}), "'id' is absent by its filter", num_rows=10)
        for i in range(groups)
    )
    files = [FilePlan(f"s3://lake/day={i % 30}/part-{i:05}.parquet", skipped) for i in range(count)]
    needle = (*skipped[:3], RowGroupPlan(3, True, num_rows=10), *skipped[4:])
    files[count // 2] = FilePlan("s3://lake/day=5/needle.parquet", needle)
    report = PruneReport("id = 1", files)
    report.requests = count
    return report


def test_many_files_make_a_bounded_page_in_which_the_needle_is_seen() -> None:
    from parquet_bloom.scan.html.details import PlanDetails
    from parquet_bloom.scan.html.page import render_page

    text = render_page(many_files(10_000, 10), PlanDetails())
    drawn = Page(text)
    assert len(text) < 2_000_000
    assert len(drawn.rows) == 64
    (cell,) = [cell for cell in drawn.cells if cell["data-state"] == "read"]
    assert "1 read (day=5/needle.parquet 3)" in cell["aria-label"]
    assert "99,999" in text
    wide = render_page(many_files(100, 1000), PlanDetails())
    assert len(wide) < 2_000_000
    assert len(Page(many_files(10_000, 10)._repr_html_()).cells) < 800
    assert Page(render_page(PruneReport("a = 1"), PlanDetails())).states == []


@pytest.mark.ci
@pytest.mark.parametrize(("count", "groups"), [(64, 36), (10_000, 10), (70, 1000)])
def test_the_worst_page_is_bounded(count: int, groups: int) -> None:
    from parquet_bloom.scan.html.details import PlanDetails
    from parquet_bloom.scan.html.page import render_page

    long = "&" * 50 + "x" * 400
    fates = [
        RowGroupPlan(0, True, num_rows=10),
        RowGroupPlan(0, True, doubts=(long + "1", long + "2", long + "3", long + "4")),
        RowGroupPlan(0, False, frozenset({"filter"}), long),
        RowGroupPlan(0, False, frozenset({"range"}), long),
        RowGroupPlan(0, False, frozenset({"nulls"}), long),
    ]
    decisions = [tuple(replace(fates[(i * 7 + j) % 5], row_group=i) for i in range(groups)) for j in range(5)]
    report = PruneReport(long, [FilePlan(f"{i}/{long}", decisions[i % 5]) for i in range(count)])
    assert len(render_page(report, PlanDetails())) < 2_500_000
    assert len(report._repr_html_()) < 1_000_000


def test_two_in_a_notebook_do_not_meet(report: PruneReport, lake: Path) -> None:
    one, other = report._repr_html_(), parquet_bloom.prune(lake, "id = 3")._repr_html_()
    scopes = [re.match(r'<div class="(pb-\w+)">', text)[1] for text in (one, other)]
    assert scopes[0] != scopes[1]
    for text, scope in zip((one, other), scopes, strict=True):
        style = text.partition("<style>")[2].partition("</style>")[0]
        assert all(rule.startswith((f".{scope} ", f".{scope}{{")) for rule in re.findall(r"\.pb-[^{},]*\{", style))
        assert set(re.findall(r'id="(pb-\w+)-', text)) == {scope}
        assert "<script" not in text


@pytest.mark.parametrize(
    ("decision", "reference", "expected"),
    [
        (RowGroupPlan(0, False, frozenset({"filter", "range"})), (), "filter"),
        (RowGroupPlan(0, False, frozenset({"range"})), (), "range"),
        (RowGroupPlan(0, False, frozenset({"empty"})), (), "other"),
        (RowGroupPlan(0, True), (), "read"),
        (RowGroupPlan(0, True), (False, None), "unfiltered"),
        (RowGroupPlan(0, True), (False, 0), "vain-unfiltered"),
        (RowGroupPlan(0, True), (True, 0), "vain"),
        (RowGroupPlan(0, True, doubts=("broken",)), (True, 0), "doubtful"),
        (RowGroupPlan(0, True, doubts=("broken",)), (True, 2), "matched"),
    ],
)
def test_fates(decision: RowGroupPlan, reference: tuple, expected: str) -> None:
    assert row_group_state(decision, *reference).key == expected


def dumped(path: Path, folder: Path) -> str:
    """The page after Chromium has loaded it and run its script."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={folder}", "--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (on Debian: apt-get install chromium)")
def test_chromium_shows_the_cells(report: PruneReport, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    written = Page(report.to_html(path, check=True))
    dom = dumped(path, tmp_path / "profile")
    cells = [dict(re.findall(r'([\w-]+)="([^"]*)"', tag)) for tag in re.findall(r'<g role="gridcell"[^>]*>', dom)]
    assert [cell["data-state"] for cell in cells] == written.states
    # The script has run under the page's own policy: one cell takes the keyboard's focus.
    assert Counter(cell["tabindex"] for cell in cells) == {"0": 1, "-1": len(cells) - 1}
