"""A lake that is kept current by Dagster: filters, index and erasures as one job, each night.

    dagster dev -f examples/lake_dagster.py

The three steps run one after the other, since an index remembers the files that filters and erasures have replaced.
Each is safe to repeat: files that have their filters, or are indexed, are left alone, and keys that are gone are not
found again. Needs `pip install dagster`.
"""

from pathlib import Path

import dagster

import parquet_bloom


class Lake(dagster.Config):
    """Where things are; `requests` is a folder of Parquet files with the column `user_id`, of those to be forgotten."""

    folder: str = "lake"
    index: str = "lake-index"
    requests: str = "requests"


@dagster.op
def erase_requests(context: dagster.OpExecutionContext, config: Lake) -> None:
    for request in sorted(Path(config.requests).glob("*.parquet")):
        report = parquet_bloom.erase(config.folder, request, on="user_id")
        context.log.info(str(report))
        context.add_output_metadata({request.name: report.num_rows})
        if report.rows_after:
            raise dagster.Failure(f"{request}: {report.rows_after} rows were written meanwhile")
        request.rename(request.with_suffix(".done"))


@dagster.op(ins={"start": dagster.In(dagster.Nothing)})
def embed_filters(context: dagster.OpExecutionContext, config: Lake) -> None:
    for path in sorted(Path(config.folder).rglob("*.parquet")):
        parquet_bloom.embed(path, ["user_id", "request_id"], fpp=1e-3)
    context.log.info("every file has its filters")


@dagster.op(ins={"start": dagster.In(dagster.Nothing)})
def append_to_index(context: dagster.OpExecutionContext, config: Lake) -> None:
    if not Path(config.index).exists():
        parquet_bloom.LakeIndex.create(config.index, ["user_id", "request_id"], lake=config.folder).close()
    with parquet_bloom.LakeIndex.open(config.index) as index:
        context.log.info(str(index.append()))


@dagster.job
def keep_lake() -> None:
    append_to_index(start=embed_filters(start=erase_requests()))


nightly = dagster.ScheduleDefinition(job=keep_lake, cron_schedule="17 2 * * *")
definitions = dagster.Definitions(jobs=[keep_lake], schedules=[nightly])
