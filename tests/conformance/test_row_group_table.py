"""We read no more row groups than the best of the engines, of the same files, and find pyarrow's rows.

`tools/bench/row_groups.py` prints all of it as a table.
"""

from __future__ import annotations

import pytest
from support.engines import sql_engines
from support.engines.row_group_lakes import write_lakes
from support.engines.row_group_table import OURS, measure, predicates
from support.scale import sampled
from support.spark.spark_settings import settings

TITLES = [one.title for one in predicates()]
ABOVE_ALL = "float >, with NaN"  # DuckDB and DataFusion lose the rows by bounds; to ClickHouse NaN is above no number


@pytest.fixture(scope="module")
def engines(clickhouse_server):
    return {"DuckDB": sql_engines.DuckDB(), "DataFusion": sql_engines.DataFusion(), "ClickHouse": clickhouse_server}


@pytest.fixture(scope="module")
def lakes(engines, tmp_path_factory):
    writers = {name.lower(): engine for name, engine in engines.items()}
    return write_lakes(tmp_path_factory.mktemp("lakes"), {"pyarrow": None, **writers})


@pytest.fixture(scope="module")
def spark_lakes(spark, tmp_path_factory):
    # Compiling a query takes longer than answering it.
    with settings(spark, {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        yield write_lakes(tmp_path_factory.mktemp("lakes"), {"spark": sql_engines.Spark(spark)})


def hold(lakes, engines, title):
    for line in measure(lakes, engines, title):
        ours = line.scanned[OURS]
        assert ours.rows == line.expected.rows, line
        assert line.expected.row_groups <= ours.row_groups <= line.best, line
        for engine, theirs in line.scanned.items():
            assert theirs.rows == line.expected.rows or (theirs.rows == 0 and title == ABOVE_ALL), (engine, line)


@pytest.mark.parametrize("title", TITLES)
def test_no_engine_reads_less(title, lakes, engines):
    hold(lakes, engines, title)


@pytest.mark.spark
@pytest.mark.parametrize("title", sampled(TITLES, 9))
def test_no_engine_reads_less_of_what_spark_writes(title, spark_lakes, spark, engines):
    hold(spark_lakes, {"Spark": spark, **engines}, title)
