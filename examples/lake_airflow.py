"""A lake that is kept current by Airflow: filters, index and erasures as one DAG, each night. Put it among your DAGs.

The three tasks run one after the other, since an index remembers the files that filters and erasures have replaced.
Each is safe to repeat, so that Airflow may: files that have their filters, or are indexed, are left alone, and keys
that are gone are not found again. Where things are is in the DAG's parameters. Needs Airflow 3.
"""

from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import dag, task

import parquet_bloom


@task(retries=2, retry_delay=timedelta(minutes=5))
def erase_requests(folder: str, requests: str) -> int:
    """Erase the users whose `user_id` is in the Parquet files of a folder; return how many rows are gone."""
    rows = 0
    for request in sorted(Path(requests).glob("*.parquet")):
        report = parquet_bloom.erase(folder, request, on="user_id")
        if report.rows_after:
            raise RuntimeError(f"{request}: {report.rows_after} rows were written meanwhile")
        request.rename(request.with_suffix(".done"))
        rows += report.num_rows
    return rows


@task(retries=2, retry_delay=timedelta(minutes=5))
def embed_filters(folder: str) -> None:
    for path in sorted(Path(folder).rglob("*.parquet")):
        parquet_bloom.embed(path, ["user_id", "request_id"], fpp=1e-3)


@task(retries=2, retry_delay=timedelta(minutes=5))
def append_to_index(folder: str, index: str) -> str:
    if not Path(index).exists():
        parquet_bloom.LakeIndex.create(index, ["user_id", "request_id"], lake=folder).close()
    with parquet_bloom.LakeIndex.open(index) as opened:
        return str(opened.append())


@dag(
    schedule="17 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # two at a time would wait for each other
    params={"folder": "/data/lake", "index": "/data/lake-index", "requests": "/data/requests"},
)
def keep_lake() -> None:
    folder, index, requests = (f"{{{{ params.{name} }}}}" for name in ("folder", "index", "requests"))
    erase_requests(folder, requests) >> embed_filters(folder) >> append_to_index(folder, index)


lake_dag = keep_lake()
