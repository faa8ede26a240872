"""A Spark Connect session in a process of its own: one process cannot have both a classic session and a Connect one.

As a module it holds the client's side, `ConnectSession`; as a program it answers questions, each a line of JSON.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.processes.line_process import LineProcess
from support.spark.spark_settings import settings


@dataclass(frozen=True)
class Answer:
    """Outcome of a query.

    Attributes
    ----------
    rows : number of rows, which are those of Spark alone without filters.
    files, all_files : how many files are read, and would be.
    doubts : what the log says about files that are read all the same.
    plan : what the log says otherwise.
    """

    rows: int
    files: int
    all_files: int
    doubts: str
    plan: str


class ConnectSession:
    """A session in a program of its own, running until it is closed."""

    def __init__(self, folder: Path):
        self.process = LineProcess([sys.executable, "-W", "ignore", __file__, str(folder)])

    def run(self, code: str, **names: Any) -> Any:
        """Run Python in the session; returns what it assigns to `answer`.

        The code sees `spark`, `F`, `dt`, `Decimal`, `parquet_bloom` (with `parquet_bloom.spark`) and the names given,
        all of which pass as JSON. Raises RuntimeError with what it raises.
        """
        answer = json.loads(self.process.ask(json.dumps({"code": code, "names": names})))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    def ask(
        self,
        path: Any,
        where: str,
        *,
        python: bool = False,
        native: str | None = None,
        conf: Mapping[str, str] | None = None,
        row_groups: bool = False,
        **options: Any,
    ) -> Answer:
        """Ask through `read_parquet`, and hold rows and schema against Spark's own without filters.

        Parameters
        ----------
        where : SQL text.
        python : `where` is Python code of a condition: of a Column, in which `df` is Spark's own DataFrame, or a list.
        native : SQL text that says the same, for Spark; needed for lists.
        conf : the session's settings meanwhile.
        """
        answer = self.run(
            "answer = ask(path, where, python, native, conf or {}, row_groups, options)",
            path=list(map(str, path)) if isinstance(path, list) else str(path),
            where=where,
            python=python,
            native=native,
            conf=conf,
            row_groups=row_groups,
            options=options,
        )
        assert answer.pop("surplus") == [], where
        assert answer.pop("missing") == [], where
        assert answer.pop("same_schema"), where
        return Answer(**answer)

    def ask_all(self, path: Any, wheres: list[str], *, python: bool = False, **conf: str) -> dict[str, Answer]:
        """Ask many questions for the price of two jobs: rows are counted, by Spark alone without pushing anything down.

        Settings are named with underscores: ``spark_sql_ansi_enabled="false"``.
        """
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        code = "answer = ask_all(path, wheres, python, conf)"
        process = self.run(code, path=str(path), wheres=wheres, python=python, conf=settings)
        for where, answer in zip(wheres, process, strict=True):
            assert answer["rows"] == answer.pop("expected"), where
        return {where: Answer(**answer) for where, answer in zip(wheres, process, strict=True)}

    def close(self) -> None:
        self.process.close()


# ------------------------------------------------------------------------------------------------- the other process


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def text(self, warnings: bool) -> str:
        chosen = (record for record in self.records if (record.levelno >= logging.WARNING) == warnings)
        return "; ".join(record.getMessage() for record in chosen)


class _Questions:
    def __init__(self, spark: Any):
        from pyspark.sql import functions as F

        import parquet_bloom
        import parquet_bloom.spark

        self.names = {"spark": spark, "F": F, "dt": datetime, "Decimal": decimal.Decimal}
        self.names |= {"parquet_bloom": parquet_bloom, "ask": self.ask, "ask_all": self.ask_all}
        self.spark = spark
        self.read_parquet = parquet_bloom.spark.read_parquet
        self.log = _Log()
        logging.getLogger("parquet_bloom.spark").addHandler(self.log)
        logging.getLogger("parquet_bloom.spark").setLevel(logging.INFO)

    def answer(self, line: str) -> dict[str, Any]:
        question = json.loads(line)
        names = {**self.names, **question["names"]}
        try:
            exec(question["code"], names)
            return {"answer": names.get("answer")}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def ask(
        self,
        path: Any,
        where: Any,
        python: bool,
        native: str | None,
        conf: Mapping[str, str],
        row_groups: bool,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        with settings(self.spark, conf):
            paths = path if isinstance(path, list) else [path]
            plain = self.spark.read.options(**options).option("parquet.filter.bloom.enabled", "false").parquet(*paths)
            if python:
                where = eval(where, {**self.names, "df": plain})
            self.log.records.clear()
            frame = self.read_parquet(self.spark, path, where, row_groups=row_groups, **options)
            expected = self.rows(plain.where(where if native is None else native))
            result = self.rows(frame)
            return {
                "rows": len(expected),
                "files": len(frame.inputFiles()),
                "all_files": len(plain.inputFiles()),
                "doubts": self.log.text(warnings=True),
                "plan": self.log.text(warnings=False),
                "surplus": [row for row in result if row not in expected][:3],
                "missing": [row for row in expected if row not in result][:3] + [""] * (len(expected) > len(result)),
                "same_schema": frame.schema == plain.schema,
            }

    def ask_all(self, path: str, wheres: list[str], python: bool, conf: Mapping[str, str]) -> list[dict[str, Any]]:
        from pyspark.sql import functions as F

        with settings(self.spark, conf):
            plain = self.spark.read.option("parquet.filter.bloom.enabled", "false").parquet(path)
            conditions = [eval(where, {**self.names, "df": plain}) if python else where for where in wheres]
            columns = [F.expr(where) if isinstance(where, str) else where for where in conditions]
            expected = plain.select(*(F.count(F.when(column, 1)) for column in columns)).first()
            answers, frames = [], []
            for number, condition in enumerate(conditions):
                self.log.records.clear()
                frame = self.read_parquet(self.spark, path, condition, schema=plain.schema)
                frames.append(frame.select(F.lit(number)))
                answers.append({"expected": expected[number], "files": len(frame.inputFiles())})
                answers[-1]["doubts"] = self.log.text(warnings=True)
                answers[-1]["plan"] = self.log.text(warnings=False)
            numbers = functools.reduce(lambda one, other: one.unionAll(other), frames).toArrow().column(0).to_pylist()
            all_files = len(plain.inputFiles())
            return [
                {**answer, "rows": numbers.count(number), "all_files": all_files}
                for number, answer in enumerate(answers)
            ]

    @staticmethod
    def rows(frame: Any) -> list[str]:
        return sorted(map(repr, frame.toArrow().to_pylist()))


def _start(folder: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    }
    builder = SparkSession.builder.remote("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    os.environ["SPARK_TESTING"] = "1"  # any free port, not the one that everybody else's server has
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever else is printed
        session = _start(sys.argv[1])
        questions = _Questions(session)
        for line in sys.stdin:
            answers.write(json.dumps(questions.answer(line)) + "\n")
            answers.flush()
        session.stop()
