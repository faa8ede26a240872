"""Test the page of a plan: its cells match the plan, hostile texts stay texts, it is bounded, Chromium draws it."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.report_pages import all_texts, drawn_paths, drawn_states, drawn_texts, read_report, without_report

import parquet_bloom
from parquet_bloom import errors
from parquet_bloom.page.report_page import render_page
from parquet_bloom.scan.model.scan_plan import FilePlan, RowGroupPlan
from parquet_bloom.scan.plan_document import PlanDetails, RowGroupDetails, make_report, read_details, row_group_state
from parquet_bloom.scan.plan_report import PruneReport

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


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
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=100, use_dictionary=False)
        else:
            parquet_bloom.write_table(table, folder / f"{number}.parquet", ["id"], row_group_size=100)
    return root


@pytest.fixture(scope="module")
def report(lake: Path) -> PruneReport:
    # Within the range of all row groups; 1005 is in one, 2005 in none.
    return parquet_bloom.prune(lake, "part = 1 AND id IN (1005, 2005)")


def make_plan(count: int, groups: int) -> PruneReport:
    """A plan in which filters rule out all but one row group."""
    skipped = tuple(
        RowGroupPlan(i, False, frozenset({"filter"}), "'id' is absent by its filter", num_rows=10)
        for i in range(groups)
    )
    files = [FilePlan(f"s3://lake/day={i % 30}/part-{i:05}.parquet", skipped) for i in range(count)]
    needle = (*skipped[:-1], RowGroupPlan(groups - 1, True, num_rows=10))
    files[count // 2] = FilePlan("s3://lake/day=5/needle.parquet", needle)
    return PruneReport("id = 1", files, requests=count)


def test_cells_are_what_was_decided(report: PruneReport, lake: Path) -> None:
    page = report.to_html()
    decided = []
    for file in report.files:
        decided += ["partition"] if file.unopened else ["read" if d.read else "skip" for d in file.row_groups]
    drawn = drawn_states(page)
    assert [{"unfiltered": "read", "filter": "skip", "range": "skip"}.get(state, state) for state in drawn] == decided
    assert "filter" in drawn
    assert drawn.count("unfiltered") == len(report.files[2].selected) > 0
    assert drawn[2] == "read"
    (text,) = drawn_texts(page, "read")
    assert text.startswith("filter on id: 256 bytes, fpp ")
    (text,) = drawn_texts(page, "partition")
    assert text == "its folder says part is 2"
    shown = read_report(page)
    assert [f"{lake}/{path}" for path in drawn_paths(page)] == [file.path for file in report.files]
    assert [count for _, _, count in shown["map"]["groups"]] == [4, 4, 4, 1]
    assert shown["map"]["rows"] == [100] * 12 + [-1]
    assert {state["key"]: state["count"] for state in shown["map"]["states"]}["partition"] == 1
    assert shown["facts"][:2] == [["files read", "2", "of 4"], ["row groups read", "5", "of 12"]]
    assert shown["where"] == report.where
    assert any("No data was read" in note for note in shown["notes"])


def test_checked_cells_tell_where_rows_match(report: PruneReport, lake: Path) -> None:
    page = report.to_html(check=True)
    assert drawn_states(page).count("matched") == 1
    assert drawn_states(page).count("vain-unfiltered") == len(report.files[2].selected)
    (text,) = drawn_texts(page, "matched")
    assert text.startswith("1 of its rows match\n")
    (note,) = [note for note in read_report(page)["notes"] if note.startswith("To look for matches, ")]
    assert "too little to estimate a rate" in note
    # By ranges alone nothing can be read for want of a filter.
    assert set(drawn_states(parquet_bloom.prune(lake, "id > 0").to_html())) == {"read"}


def test_numbers_are_exact(report: PruneReport) -> None:
    sizes, read = [], 0
    for file in report.files[:3]:
        metadata = pq.read_metadata(file.path)
        for row_group in range(metadata.num_row_groups):
            of_group = metadata.row_group(row_group)
            sizes.append(sum(of_group.column(i).total_compressed_size for i in range(of_group.num_columns)))
            read += sizes[-1] if row_group in file.selected else 0
    result = read_details(report)
    assert read_report(report.to_html())["map"]["bytes"] == [*sizes, -1]
    groups = {(path, i): group for path, row_groups in result.files.items() for i, group in enumerate(row_groups)}
    selected = [(file.path, i) for file in report.files for i in file.selected]
    assert sum(groups[location].num_bytes for location in selected) == read
    measured = result.measured("id")
    assert result.num_filters == {"id": 8}
    with parquet_bloom.open(report.files[0].path) as file:
        assert measured[0] == (256, file.chunk(0, "id").fpp, file.chunk(0, "id").ndv_estimate)
    filters, _ = read_report(report.to_html(asked_fpp=0.01))["tables"]
    assert filters["heads"][-1] == "over 1.2 × asked"
    (curve,) = filters["curves"]
    assert (curve["asked"], len(curve["dots"])) == (0.01, 8)
    assert [fpp for _, fpp in curve["line"]] == sorted((fpp for _, fpp in curve["line"]), reverse=True)


EVIL = "<img src=x onerror='alert(1)'>&\"</script></style><!--]]>\x1b[31m\n\u2028\u202e\udc80日本{style}"


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / ("<b onclick=alert(1)>&\"' \x1b[31m日本" + "x" * 100)
    pq.write_table(pa.table({"<script>alert(1)</script>": ["a", "b"]}), path)
    plain = parquet_bloom.prune(tmp_path, [("<script>alert(1)</script>", "=", "a")])
    hostile = PruneReport(EVIL, [FilePlan(EVIL, (RowGroupPlan(0, True, doubts=(EVIL,) * 9),), EVIL)])
    frame = without_report(render_page(make_report(PruneReport("a = 1"), PlanDetails())))
    for page in (plain.to_html(check=True), render_page(make_report(hostile, PlanDetails()))):
        page.encode()
        assert without_report(page) == frame
        data = json.dumps(read_report(page))
        assert "<script>" in data or "<img" in data
        assert all(text.replace("\n", "").isprintable() for text in all_texts(read_report(page)))
    for snippet in (plain._repr_html_(), hostile._repr_html_()):
        assert not re.search(r"<(script|img|b |a|iframe)|\son\w+=\"|\x1b|\u202e|\u2028", snippet)
        snippet.encode()


def test_the_page_loads_nothing(report: PruneReport) -> None:
    text = report.to_html(check=True)
    assert "default-src 'none'" in text
    assert "unsafe" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|src=|href=|\sstyle=|\son\w+=", text)


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
    page = report.to_html(check=True)
    assert drawn_states(page) == ["read", "read"]
    assert read_report(page)["map"]["bytes"] == [-1, -1]
    assert any("could not be read again" in note for note in read_report(page)["notes"])


def test_many_row_groups_share_their_descriptions() -> None:
    page = render_page(make_report(make_plan(1000, 100), PlanDetails()))
    assert len(page) < 1_000_000
    assert len(read_report(page)["map"]["kinds"]) == 2
    assert drawn_states(page).index("read") == 50_099
    assert read_report(page)["tables"][0]["rows"][0][0] == "s3://lake/day=5/needle.parquet"


def test_of_too_many_row_groups_those_read_are_drawn() -> None:
    page = render_page(make_report(make_plan(100, 9), PlanDetails(), most_cells=30))
    drawn = read_report(page)["map"]
    assert drawn_states(page) == ["filter"] * 26 + ["read"]
    assert drawn_paths(page) == ["day=0/part-00000.parquet", "day=1/part-00001.parquet", "day=5/needle.parquet"]
    assert [(state["key"], state["count"]) for state in drawn["states"]] == [("read", 1), ("filter", 899)]
    assert "3 of 100 files are drawn" in drawn["about"]
    nothing = read_report(render_page(make_report(PruneReport("a = 1"), PlanDetails())))
    assert (nothing["map"], nothing["notes"], nothing["tables"]) == (None, ["There are no files."], [])


@pytest.mark.ci
def test_texts_of_any_length_make_a_bounded_page() -> None:
    long = "&" * 5000 + "x" * 4000
    groups = [RowGroupPlan(0, True, doubts=tuple(f"{long}{i}" for i in range(9)))] * 36
    report = PruneReport(long * 100, [FilePlan(f"{i}{long}/{long}", tuple(groups)) for i in range(64)])
    assert len(render_page(make_report(report, PlanDetails()))) < 400_000
    assert len(report._repr_html_()) < 400_000


@pytest.mark.parametrize(
    ("decision", "details", "expected"),
    [
        (RowGroupPlan(0, False, frozenset({"filter", "range"})), None, "filter"),
        (RowGroupPlan(0, False, frozenset({"range"})), None, "range"),
        (RowGroupPlan(0, False, frozenset({"zones"})), None, "zones"),
        (RowGroupPlan(0, False, frozenset({"index"})), None, "index"),
        (RowGroupPlan(0, False, frozenset({"empty"})), None, "other"),
        (RowGroupPlan(0, True), None, "read"),
        (RowGroupPlan(0, True), (False, None), "unfiltered"),
        (RowGroupPlan(0, True), (False, 0), "vain-unfiltered"),
        (RowGroupPlan(0, True), (True, 0), "vain"),
        (RowGroupPlan(0, True, doubts=("broken",)), (True, 0), "doubtful"),
        (RowGroupPlan(0, True, doubts=("broken",)), (True, 2), "matched"),
    ],
)
def test_states(decision: RowGroupPlan, details: tuple[Any, ...] | None, expected: str) -> None:
    known = None if details is None else RowGroupDetails(0, 0, *details, {})
    assert row_group_state(decision, known).key == expected


def test_a_notebook_shows_a_square_for_a_row_group(report: PruneReport) -> None:
    snippet = report._repr_html_()
    assert len(re.findall(r"h12v12", snippet)) == 13
    assert "skipped by a filter <b>" in snippet
    many = make_plan(10_000, 10)._repr_html_()
    assert len(many) < 60_000
    assert "A square is 84 row groups." in many
    assert 'fill="#c2410c"' in many  # the one that is read is seen


# ------------------------------------------------------------------------------------------------ in a browser

# Uses the page, and leaves what it says at each step.
USE = """
const canvas = document.querySelector(".board canvas");
const said = [];
const say = (selector) => said.push(document.querySelector(selector).textContent);
const press = (...keys) => keys.forEach((key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key })));
const pointAt = (Event, name, x, y) => {
  const { left, top } = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new Event(name, { clientX: left + x, clientY: top + y }));
};
const use = () => {
  press("ArrowRight", "ArrowRight", "ArrowRight");
  say(".current");
  press("Enter", "ArrowDown", "End");
  say(".pinned");
  say(".current");
  press("Escape");
  document.querySelector('[data-state="unfiltered"]').click();
  press("PageUp", "ArrowDown", "Home");
  say(".current");
  const mark = document.querySelector(".mark").style;
  pointAt(PointerEvent, "pointermove", 1, 1);
  say(".current");
  pointAt(MouseEvent, "click", parseInt(mark.left) + 5, parseInt(mark.top) + 5);
  say(".pinned");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  said.push(new Set(new Uint32Array(pixels.buffer)).size > 5 ? "in colours" : "blank");
  document.querySelector("output").textContent = JSON.stringify(said);
};
setTimeout(use, 1000);
"""


def in_chromium(page: Path, folder: Path) -> str:
    """The page after Chromium has loaded it and run its scripts."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={folder}", "--virtual-time-budget=5000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (on Debian: apt-get install chromium)")


def run_script(text: str, script: str, folder: Path) -> Any:
    """Return what a script at the end of a page leaves in its `<output>` as JSON."""
    # The policy does not let another script run, so it goes.
    text = re.sub(r"<meta http-equiv[^>]*>", "", text)
    page = folder / "used.html"
    page.write_text(text.replace("</body>", f"<output></output><script>{script}</script></body>"), "utf-8")
    dom = in_chromium(page, folder / "profile")
    return json.loads(html.unescape(re.findall(r"<output>(.*?)</output>", dom, re.DOTALL)[0]))


@pytest.mark.ci
@needs_chromium
def test_chromium_draws_the_page_and_heeds_keys(report: PruneReport, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    text = report.to_html(path)
    dom = in_chromium(path, tmp_path / "profile")
    # The script and the style have run under the page's own policy.
    buttons = re.findall(r'<button [^>]*data-state="([^"]*)"', dom)
    assert buttons == [state["key"] for state in read_report(text)["map"]["states"]]
    assert re.search(r"<canvas[^>]* style=\"width: \d+px; height: \d+px;\"", dom)
    said = run_script(text, USE, tmp_path)
    hint = "Point at a cell, or tap it, to see what it is."
    at_1_3, at_2_0 = "part=1/1.parquet, row group 3", "part=1/2.parquet, row group 0"
    assert said[0].splitlines()[:2] == ["part=1/0.parquet, row group 2", "read, 100 rows, 1.2 KB"]
    assert said[0].endswith("\n1 of the 4 row groups of this file are read")
    assert said[1] == said[0]
    assert [text.splitlines()[0] for text in said[2:]] == [at_1_3, at_2_0, hint, at_2_0, "in colours"]


# Lays the cells out in each width, and tells how high that is and which cells are not found where they stand.
LAY_OUT = """
const map = new CellMap(report.map);
const isLost = (cell) => map.cellAt(map.x[cell] + 1, map.lines[map.lineOf(cell)].y + 1) !== cell;
const cells = Array.from({ length: map.length }, (_, cell) => cell);
const isOver = (cell) => map.x[cell] + map.lines[map.lineOf(cell)].wide > map.width;
const measure = (width) => {
  map.layOut(width);
  return [map.height, map.lines.length, cells.filter((cell) => isLost(cell) || isOver(cell)).length];
};
document.querySelector("output").textContent = JSON.stringify([360, 1100].map(measure));
"""


@pytest.mark.ci
@needs_chromium
@pytest.mark.parametrize(
    ("files", "row_groups", "highest", "fewest_lines"),
    [
        pytest.param(1, 24, (80, 30), (2, 1), id="a strip"),
        pytest.param(200, 1, (300, 140), (13, 6), id="a grid"),
        pytest.param(40, 8, (1600, 700), (40, 40), id="strips"),
        pytest.param(1000, 100, (5000, 2200), (1100, 500), id="a grid of long files"),
    ],
)
def test_cells_stand_in_lines_at_any_width(
    files: int, row_groups: int, highest: tuple[int, int], fewest_lines: tuple[int, int], tmp_path: Path
) -> None:
    page = render_page(make_report(make_plan(files, row_groups), PlanDetails()))
    for (height, lines, lost), most, fewest in zip(
        run_script(page, LAY_OUT, tmp_path), highest, fewest_lines, strict=True
    ):
        assert height <= most
        assert fewest <= lines <= 1.1 * fewest
        assert lost == 0
