"""`parquet-bloom index serve`: answer lookups in an index over HTTP."""

from __future__ import annotations

import json
import os

import click

from ...errors import ParquetBloomError
from ..command import POSITIVE, CommandOptions, command, flag, option
from ..options.index_options import INDEX, open_index, parse_size
from ..output.output import Output, write_text


class ServeOptions(CommandOptions):
    path: str = INDEX
    host: str = option(
        "ADDRESS",
        "Address to listen on. Without a token anyone who can reach it may look up, append and remove.",
        default="127.0.0.1",
    )
    port: int = option(
        "N",
        "Port to listen on; 0 for a free port. The URL is printed when the service is ready.",
        type=click.IntRange(0, 65535),
        default=8080,
    )
    token_file: str | None = option(
        "FILE",
        "Answer only requests with the header 'Authorization: Bearer TOKEN', where the token is a line of this file. "
        "The environment variable PARQUET_BLOOM_TOKEN may hold one instead. GET /health needs none.",
        type=click.Path(dir_okay=False),
    )
    open_metrics: bool = flag("Answer GET /metrics without a token.")
    rows: bool = flag("Answer POST /get with rows of the lake. Default: names of files only.")
    read_only: bool = flag("Answer lookups only: refuse append and remove.")
    roots: tuple[str, ...] = option(
        "PATH",
        "Also allow appending files below this folder or URL. Default: files in the lake of the index. Repeatable.",
        "--root",
        multiple=True,
    )
    refresh_seconds: float | None = option(
        "SECONDS",
        "Reload the index and list the lake again at this interval. Default: only on POST /refresh.",
        "--refresh",
        type=click.FloatRange(min=0.1),
    )
    max_values: int = option("N", "Maximum number of values, or files, in a request.", type=POSITIVE, default=10_000)
    max_body: int = option("SIZE", "Maximum size of a request.", default="8MB", callback=parse_size)
    max_rows: int = option("N", "Maximum number of rows in an answer to POST /get.", type=POSITIVE, default=100_000)
    max_answer: int = option("SIZE", "Maximum size of the rows in an answer.", default="16MB", callback=parse_size)


@command("index serve", ServeOptions, totals=False)
def serve(output: Output, given: ServeOptions) -> int:
    """Answer lookups in an index over HTTP, and index appended files.

    POST /lookup {"column": ..., "values": [...]}, GET /lookup?column=&value=, POST /append and /remove with
    {"files": [...]}, POST /refresh, GET /stats, /health, /metrics, /openapi.json and /docs. Responses are JSON; errors
    are {"error": ...}. With --rows also POST /get {"column": ..., "keys": [...], "columns": [...]}, which answers with
    rows, as JSON, or as an Arrow stream where Accept says application/vnd.apache.arrow.stream.

    The lake is checked for changed and new files when the service starts, changes the index, and refreshes.

    Exit codes: 0 stopped by SIGTERM or Ctrl-C, 2 error.

    Example:
      parquet-bloom index serve ids.index --refresh 60
      curl 'http://127.0.0.1:8080/lookup?column=user.id&value=42'
      curl -H 'Content-Type: application/json' -d '{"column": "user.id", "values": [42, 43]}' http://127.0.0.1:8080/lookup
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

    request_guards.check_roots(given.roots)
    tokens = read_tokens(given.token_file, os.environ)
    settings = Settings(
        given.read_only,
        given.roots,
        given.refresh_seconds,
        rows=given.rows,
        tokens=tokens,
        open_metrics=given.open_metrics,
        max_values=given.max_values,
        max_body=given.max_body,
        max_rows=given.max_rows,
        max_answer=given.max_answer,
    )
    host = given.host
    with open_index(output, given.path) as index:
        if given.rows:
            check_lake(index)
        listening = server.listen(host, given.port)
        if not is_loopback(listening.getsockname()[0]):
            _warn(output, host, tokens is not None, given.rows)
        service = Service(index, settings, index.lake_filesystem)

        def ready(url: str) -> None:
            as_json = output.format in ("json", "ndjson")
            if not output.quiet:
                write_text((json.dumps({"index": index.path, "url": url}) if as_json else url) + "\n")

        try:
            server.run(service, listening, host, ready, output.bug)
        finally:
            service.close()
    return output.exit_code()


def _warn(output: Output, host: str, has_token: bool, rows: bool) -> None:
    """Warn of a service that other machines can reach."""
    if has_token:
        output.warn(f"warning: no TLS: whoever can read the traffic to {host} sees the token; put a proxy in front")
        return
    output.warn(f"warning: no token is required: anyone who can reach {host} may look up, append and remove")
    if rows:
        output.warn("warning: and read all rows of the lake")
