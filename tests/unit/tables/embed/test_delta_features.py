"""Features of Delta tables, alone and in pairs: what a new file's entry takes over, and what a commit has to have."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines import duckdb_tables
from support.writers import delta_log

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.embed.embed_table import embed_table

deltalake = pytest.importorskip("deltalake")

ROWS = 5


class Feature(NamedTuple):
    """A feature in use: of readers too or of writers alone, properties, members of add actions, and other actions."""

    name: str
    of_readers: bool = False
    configuration: Mapping[str, str] = {}
    members: Mapping[str, Any] = {}
    actions: tuple[Any, ...] = ()


def domain(name: str, **configuration: object) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": json.dumps(configuration), "removed": False}}


FEATURES = (
    Feature(
        "rowTracking",
        configuration={"delta.enableRowTracking": "true"},
        members={"baseRowId": ROWS, "defaultRowCommitVersion": 0},
        actions=(domain("delta.rowTracking", rowIdHighWaterMark=2 * ROWS),),
    ),
    Feature("inCommitTimestamp", configuration={"delta.enableInCommitTimestamps": "true"}),
    Feature("domainMetadata", actions=(domain("mine", a=1),)),
    Feature(
        "clustering",
        members={"clusteringProvider": "liquid"},
        actions=(domain("delta.clustering", clusteringColumns=[["id"]]),),
    ),
    Feature("typeWidening", True, {"delta.enableTypeWidening": "true"}),
    Feature("deletionVectors", True, members={"deletionVector": delta_log.inline_vector([1, 3])}),
    Feature("identityColumns"),
    Feature("allowColumnDefaults"),
    Feature("icebergCompatV2", configuration={"delta.enableIcebergCompatV2": "true"}),
    Feature("checkpointProtection"),
    Feature("vacuumProtocolCheck", True),
    Feature(
        "appendOnly", configuration={"delta.appendOnly": "true"}, members={"tags": {"ZCUBE_ID": "x", "EMPTY": None}}
    ),
)


def make_table(root: Path, *features: Feature) -> str:
    """Write a table of two files; the first one has the members of the features."""
    readers = [feature.name for feature in features if feature.of_readers]
    writers = [feature.name for feature in features if not feature.of_readers]
    configuration = {name: text for feature in features for name, text in feature.configuration.items()}
    actions = delta_log.beginning(
        [delta_log.column("id", "long"), delta_log.column("s", "string")],
        configuration=configuration,
        features=readers,
        writer_features=writers,
    )
    # A clock that is ahead: the next commit must not be earlier.
    info = {"inCommitTimestamp": time.time_ns() // 1_000_000 + 3_600_000, "operation": "WRITE"}
    actions = [{"commitInfo": info}, *actions]
    for number in range(2):
        path = root / f"part-{number}.parquet"
        root.mkdir(exist_ok=True)
        ids = range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "s": [f"v{i}" for i in ids]}), path)
        stats = {"numRecords": ROWS, "minValues": {"id": ids[0]}, "maxValues": {"id": ids[-1]}, "nullCount": {"id": 0}}
        members = {name: value for feature in features for name, value in feature.members.items()} if not number else {}
        actions.append(delta_log.add(path.name, path.stat().st_size, stats, **members))
    actions += [action for feature in features for action in feature.actions]
    delta_log.commit(root, 0, actions)
    return str(root)


def read_actions(root: str, version: int, name: str) -> list[Any]:
    lines = Path(root, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return [action[name] for action in map(json.loads, lines) if name in action]


def read_rows(root: str, version: int | None = None) -> list[Any]:
    """Read the rows by deltalake, or where it does not know the table's features by this package."""
    try:
        table = pa.table(deltalake.DeltaTable(root, version=version).scan())
    except deltalake.exceptions.DeltaError as error:
        if "Unsupported table features" not in str(error):
            raise
        table = parquet_bloom.read_table(parquet_bloom.delta(root, version=version), "id >= 0")
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.ci
@pytest.mark.parametrize(
    "features",
    [(feature,) for feature in FEATURES] + list(combinations(FEATURES, 2)),
    ids=lambda features: "+".join(feature.name for feature in features),
)
def test_new_entries_have_what_the_old_ones_had(tmp_path: Path, features: tuple[Feature, ...]) -> None:
    root = make_table(tmp_path / "table", *features)
    before = read_rows(root)
    assert len(before) == 2 * ROWS - 2 * ("deletionVectors" in {feature.name for feature in features})
    report = embed_table(root, ["id"])
    assert (len(report.files), report.skipped, report.new_version) == (2, (), 1)
    assert read_rows(root) == read_rows(root, 0) == before
    assert parquet_bloom.read_table(parquet_bloom.delta(root), "id >= 0").sort_by("id").to_pylist() == before
    old = {Path(report.files[i].new).name: Path(report.files[i].old).name for i in range(2)}
    adds = {add["path"]: add for add in read_actions(root, 0, "add")}
    changed = ("path", "size", "modificationTime", "dataChange")
    for add in read_actions(root, 1, "add"):
        was = adds[old[add["path"]]]
        assert {**add, **{name: was[name] for name in changed}} == was
        assert add["dataChange"] is False
    for remove in read_actions(root, 1, "remove"):
        was = adds[remove["path"]]
        kept = {"stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "partitionValues", "size"}
        assert {name: remove[name] for name in kept & was.keys()} == {name: was[name] for name in kept & was.keys()}
        assert remove["dataChange"] is False
    [info] = read_actions(root, 1, "commitInfo")
    first_line = Path(root, "_delta_log", f"{1:020}.json").read_text().splitlines()[0]
    if "inCommitTimestamp" in {feature.name for feature in features}:
        assert json.loads(first_line)["commitInfo"]["inCommitTimestamp"] == (
            read_actions(root, 0, "commitInfo")[0]["inCommitTimestamp"] + 1
        )
    else:
        assert "inCommitTimestamp" not in info
    assert not embed_table(root, ["id"]).changed


def test_deltalake_reads_the_times_of_commits(tmp_path: Path) -> None:
    root = make_table(tmp_path / "table", next(feature for feature in FEATURES if feature.name == "inCommitTimestamp"))
    [first] = deltalake.DeltaTable(root).history()
    embed_table(root, ["id"])
    embed_table(root, ["s"])
    history = deltalake.DeltaTable(root).history()[::-1]
    assert history[0] == first
    times = [commit["inCommitTimestamp"] for commit in history]
    assert times == [first["inCommitTimestamp"] + number for number in range(3)]


@pytest.mark.ci
def test_duckdb_reads_the_same_domains_and_rows(tmp_path: Path) -> None:
    names = ("domainMetadata", "clustering", "rowTracking", "deletionVectors")
    root = make_table(tmp_path / "table", *(feature for feature in FEATURES if feature.name in names))
    embed_table(root, ["id"])
    domains, rows, counts = duckdb_tables.ask(
        *(
            f"SELECT DISTINCT * FROM (FROM {function}('{root}', version = 0) UNION ALL FROM {function}('{root}'))"
            for function in ("delta_domain_metadata", "delta_scan")
        ),
        f"SELECT version, count(*) FROM (SELECT 0 AS version FROM delta_scan('{root}', version = 0) "
        f"UNION ALL SELECT 1 FROM delta_scan('{root}')) GROUP BY ALL ORDER BY ALL",
    )
    assert domains == [["mine", '{"a": 1}']]  # those of the protocol it keeps for itself
    assert sorted(rows) == [[row["id"], row["s"]] for row in read_rows(root)]
    assert counts == [[0, 2 * ROWS - 2], [1, 2 * ROWS - 2]]


def test_unknown_feature_is_refused_by_name(tmp_path: Path) -> None:
    root = make_table(tmp_path / "table", Feature("something-new"))
    with pytest.raises(ParquetBloomError, match=r"feature something-new, with which files cannot be .* a lake index"):
        embed_table(root, ["id"])
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 2


def test_metadata_of_other_formats_would_name_files_that_a_vacuum_deletes(tmp_path: Path) -> None:
    uniform = Feature("icebergCompatV2", configuration={"delta.universalFormat.enabledFormats": "iceberg"})
    root = make_table(tmp_path / "table", uniform)
    with pytest.raises(ParquetBloomError, match=r"universalFormat.enabledFormats .* which a vacuum deletes"):
        embed_table(root, ["id"])


def test_commit_without_the_time_that_it_must_not_precede(tmp_path: Path) -> None:
    root = make_table(tmp_path / "table", FEATURES[1])
    log = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[1:]))
    with pytest.raises(ParquetBloomError, match="no in-commit timestamp in its first line"):
        embed_table(root, ["id"])
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 2


def test_statistics_that_a_checkpoint_has_in_columns(tmp_path: Path) -> None:
    moments = ["2024-01-01 00:00:00.123456", "2024-12-31 23:59:59.123456"]
    table = pa.table(
        {
            "n": [1, 2],
            "f": [0.1, 5.5],
            "s": ["a", "é"],
            "d": pa.array(["1999-01-01", "2024-02-29"]).cast(pa.date32()),
            "t": pa.array(moments).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "x": pa.array(["1.10", "2.20"]).cast(pa.decimal128(9, 2)),
        }
    )
    kinds = ["long", "double", "string", "date", "timestamp", "decimal(9,2)"]
    root = tmp_path / "table"
    root.mkdir()
    pq.write_table(table, root / "a.parquet")
    low, high = table.to_pylist()
    counts = dict.fromkeys(table.column_names, 0)
    add = delta_log.add("a.parquet", (root / "a.parquet").stat().st_size)
    add["add"]["stats_parsed"] = {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": counts}
    values = pa.struct(list(table.schema))
    parsed = {"numRecords": pa.int64(), "minValues": values, "maxValues": values}
    parsed["nullCount"] = pa.struct([(name, pa.int64()) for name in table.column_names])
    members = [field for field in delta_log.TYPES["add"] if field.name != "stats_parsed"]
    types = delta_log.TYPES | {"add": pa.struct([*members, ("stats_parsed", pa.struct(list(parsed.items())))])}
    actions = delta_log.beginning(
        [delta_log.column(*field) for field in zip(table.column_names, kinds, strict=True)],
        configuration={"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"},
    )
    delta_log.write_actions(root / "_delta_log" / f"{0:020}.checkpoint.parquet", [*actions, add], types)
    assert embed_table(str(root), ["n"]).changed
    [new] = read_actions(str(root), 1, "add")
    statistics = json.loads(new["stats"])
    assert statistics["numRecords"] == 2
    assert statistics["nullCount"] == counts
    text = {"n": 1, "f": 0.1, "s": "a", "d": "1999-01-01"}
    assert statistics["minValues"] == {**text, "t": "2024-01-01T00:00:00.123Z"}
    text = {"n": 2, "f": 5.5, "s": "é", "d": "2024-02-29"}
    assert statistics["maxValues"] == {**text, "t": "2024-12-31T23:59:59.124Z"}
    assert pa.table(deltalake.DeltaTable(root).scan(predicate="d = '2024-02-29'")).num_rows == 1
    for where in ("n = 2", "s = 'é'", "t = timestamp '2024-12-31 23:59:59.123456Z'", "d = date '1999-01-01'"):
        assert parquet_bloom.read_table(parquet_bloom.delta(root), where).num_rows == 1
