"""ClickHouse beside the tests, in a process of its own: ``with ClickHouse(folder) as server: server("SELECT 1")``.

chdb takes signal handlers away from Python's fault handler, starts a dozen threads and holds 300 MB as soon as it is
imported, so no process that runs tests imports it. Run as a program, this module is the process that does.
"""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import json
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a program, too

from support.processes.line_process import LineProcess

NEEDED = "chdb"


def installed() -> bool:
    return importlib.util.find_spec(NEEDED) is not None


class ClickHouseError(Exception):
    """A query failed in ClickHouse; the message is the server's."""


class ClickHouse:
    """One session; queries are answered one after the other, each row a list of values.

    Parameters
    ----------
    folder : where the session keeps what it needs.

    Attributes
    ----------
    rows_read : of files by the last query.
    """

    def __init__(self, folder: Path):
        self.process = LineProcess([sys.executable, str(Path(__file__).resolve()), str(folder)])
        self.rows_read = 0

    def __call__(self, query: str) -> list[list[Any]]:
        answer = json.loads(self.process.ask(json.dumps(query)))
        if "error" in answer:
            raise ClickHouseError(answer["error"])
        self.rows_read = answer["rows_read"]
        return answer["rows"]

    def __enter__(self) -> ClickHouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()


def column(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def literal(value: Any, unit: str = "us", scale: int = 0) -> str:
    """A value as a constant of ClickHouse's; integers that are moments count nanoseconds, and unit is "ns"."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, uuid.UUID):
        return f"toUUID('{value}')"
    if isinstance(value, decimal.Decimal):
        return f"toDecimal128('{value:f}', {scale})"
    if isinstance(value, int) and unit == "ns":
        return f"fromUnixTimestamp64Nano(toInt64({value}), 'UTC')"
    if isinstance(value, datetime.time):  # ClickHouse takes times of day for times of 1970-01-01
        value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
    if isinstance(value, datetime.datetime):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
        return f"toDateTime64('{value.replace(tzinfo=None).isoformat(' ')}', {digits}, 'UTC')"
    if isinstance(value, datetime.date):
        return f"toDate32('{value}')"
    return repr(value)


def count(server: ClickHouse, path: Path, where: str) -> int:
    """The rows of a file that ClickHouse finds by a condition."""
    query = f"SELECT count() FROM file('{path}', Parquet) WHERE {where} SETTINGS max_query_size = 100000000"
    return int(server(query)[0][0])


def main(folder: str) -> None:
    from chdb import session

    connection = session.Session(folder)
    answers = sys.stdout
    for line in sys.stdin:
        try:
            result = connection.query(json.loads(line), "JSONCompactEachRow")
            rows = [json.loads(row) for row in str(result).splitlines()]
            answer: dict[str, Any] = {"rows": rows, "rows_read": result.storage_rows_read()}
        except Exception as error:
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
