"""`parquet-bloom index serve`: answer lookups in an index over HTTP."""

from __future__ import annotations

import json
import os

import click

from ...errors import ParquetBloomError
from ..options.index_options import index_argument, open_index, parse_size
from ..options.shared_options import command
from ..output.output import Output, write_text


@command(
    "index serve",
    example=(
        "parquet-bloom index serve ids.index --refresh 60\n"
        "curl 'http://127.0.0.1:8080/lookup?column=user.id&value=42'\n"
        'curl -H \'Content-Type: application/json\' -d \'{"column": "user.id", "values": [42, 43]}\' '
        "http://127.0.0.1:8080/lookup"
    ),
    exit_codes="0 stopped by SIGTERM or Ctrl-C, 2 error.",
    paths=False,
)
@index_argument
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Without a token anyone who can reach it may look up, append and remove.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 for a free port. The URL is printed when the service is ready.",
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Answer only requests with the header 'Authorization: Bearer TOKEN', where the token is a line of this file. "
    "The environment variable PARQUET_BLOOM_TOKEN may hold one instead. GET /health needs none.",
)
@click.option("--open-metrics", is_flag=True, help="Answer GET /metrics without a token.")
@click.option(
    "--rows",
    is_flag=True,
    help="Answer POST /get with rows of the lake. Default: names of files only.",
)
@click.option("--read-only", is_flag=True, help="Answer lookups only: refuse append and remove.")
@click.option(
    "--root",
    "roots",
    metavar="PATH",
    multiple=True,
    help="Also allow appending files below this folder or URL. Default: files in the lake of the index. Repeatable.",
)
@click.option(
    "--refresh",
    "refresh_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Reload the index and list the lake again at this interval. Default: only on POST /refresh.",
)
@click.option(
    "--max-values",
    metavar="N",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Maximum number of values, or files, in a request.",
)
@click.option(
    "--max-body",
    metavar="SIZE",
    default="8MB",
    show_default=True,
    callback=parse_size,
    help="Maximum size of a request.",
)
@click.option(
    "--max-rows",
    metavar="N",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Maximum number of rows in an answer to POST /get.",
)
@click.option(
    "--max-answer",
    metavar="SIZE",
    default="16MB",
    show_default=True,
    callback=parse_size,
    help="Maximum size of the rows in an answer.",
)
def serve(
    output: Output,
    path: str,
    host: str,
    port: int,
    token_file: str | None,
    open_metrics: bool,
    rows: bool,
    read_only: bool,
    roots: tuple[str, ...],
    refresh_seconds: float | None,
    max_values: int,
    max_body: int,
    max_rows: int,
    max_answer: int,
) -> int:
    """Answer lookups in an index over HTTP, and index appended files.

    POST /lookup {"column": ..., "values": [...]}, GET /lookup?column=&value=, POST /append and /remove with
    {"files": [...]}, POST /refresh, GET /stats, /health, /metrics, /openapi.json and /docs. Responses are JSON; errors
    are {"error": ...}. With --rows also POST /get {"column": ..., "keys": [...], "columns": [...]}, which answers with
    rows, as JSON, or as an Arrow stream where Accept says application/vnd.apache.arrow.stream.

    The lake is checked for changed and new files when the service starts, changes the index, and refreshes.
    """
    try:
        from ...serve import request_guards, server
        from ...serve.request_guards import is_loopback, read_tokens
        from ...serve.served_rows import check_lake
        from ...serve.service import Service
        from ...serve.service_settings import Settings
    except ImportError as error:
        text = f"the service needs the extra 'serve': pip install 'parquet-bloom[serve]' ({error})"
        raise ParquetBloomError(text) from error

    request_guards.check_roots(roots)
    bounds = {"max_values": max_values, "max_body": max_body, "max_rows": max_rows, "max_answer": max_answer}
    tokens = read_tokens(token_file, os.environ)
    settings = Settings(
        read_only, roots, refresh_seconds, rows=rows, tokens=tokens, open_metrics=open_metrics, **bounds
    )
    with open_index(output, path) as index:
        if rows:
            check_lake(index)
        listening = server.listen(host, port)
        if not is_loopback(listening.getsockname()[0]):
            _warn(output, host, tokens is not None, rows)
        service = Service(index, settings, index.lake_filesystem)

        def ready(url: str) -> None:
            as_json = output.format in ("json", "ndjson")
            write_text((json.dumps({"index": index.path, "url": url}) if as_json else url) + "\n")

        try:
            server.run(service, listening, host, ready, output.bug)
        finally:
            service.close()
    return output.exit_code()


def _warn(output: Output, host: str, has_token: bool, rows: bool) -> None:
    """Warn of a service that other machines can reach."""
    if has_token:
        output.note(f"warning: no TLS: whoever can read the traffic to {host} sees the token; put a proxy in front")
        return
    output.note(f"warning: no token is required: anyone who can reach {host} may look up, append and remove")
    if rows:
        output.note("warning: and read all rows of the lake")
