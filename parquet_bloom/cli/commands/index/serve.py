"""`parquet-bloom index serve`: an index that answers over HTTP."""

from __future__ import annotations

import json

import click

from ....errors import ParquetBloomError
from ...options.common import command
from ...output.output import Output, write_text
from .common import index_argument, num_bytes, opened


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
    help="Listen here. There is no authentication: whoever reaches the address may look up, append and remove.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Listen here; 0 takes a port that is free. The URL is printed when the service is ready.",
)
@click.option("--read-only", is_flag=True, help="Answer lookups alone: refuse append and remove.")
@click.option(
    "--root",
    "roots",
    metavar="PATH",
    multiple=True,
    help="Files below this folder or URL may be appended, too; without it, those in the lake of the index. Repeatable.",
)
@click.option(
    "--refresh",
    "refresh_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Look at the index and the lake again so often; otherwise when POST /refresh asks for it.",
)
@click.option(
    "--max-values",
    metavar="N",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Values, or files, in a request.",
)
@click.option(
    "--max-body", metavar="SIZE", default="8MB", show_default=True, callback=num_bytes, help="Size of a request."
)
def serve(
    output: Output,
    path: str,
    host: str,
    port: int,
    read_only: bool,
    roots: tuple[str, ...],
    refresh_seconds: float | None,
    max_values: int,
    max_body: int,
) -> int:
    """Answer lookups in an index over HTTP, and index files that are appended.

    POST /lookup {"column": ..., "values": [...]}, GET /lookup?column=&value=, POST /append and /remove with
    {"files": [...]}, POST /refresh, GET /stats, /health, /openapi.json and /docs. Answers are JSON, and so are errors:
    {"error": ...}.

    Which files are live is judged when the service begins, when it changes the index, and when it refreshes.
    """
    try:
        from ....serve import server
        from ....serve.limits import allowed_paths as places
        from ....serve.limits.host_guard import is_loopback
        from ....serve.service import Service
        from ....serve.settings import Settings
    except ImportError as error:
        text = f"the service needs the extra 'serve': pip install 'parquet-bloom[serve]' ({error})"
        raise ParquetBloomError(text) from error

    places.check_roots(roots)
    settings = Settings(read_only, roots, refresh_seconds, max_values, max_body)
    with opened(output, path) as index:
        listening = server.listen(host, port)
        if not is_loopback(listening.getsockname()[0]):
            output.note(f"warning: there is no authentication: whoever reaches {host} may ask, append and remove")
        service = Service(index, settings, index.lake_filesystem)

        def ready(url: str) -> None:
            as_json = output.format in ("json", "ndjson")
            write_text((json.dumps({"index": index.path, "url": url}) if as_json else url) + "\n")

        try:
            server.run(service, listening, host, ready, output.bug)
        finally:
            service.close()
    return output.exit_code()
