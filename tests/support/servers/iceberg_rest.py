"""A catalog of Iceberg's REST protocol on loopback, over pyiceberg's own catalog in SQL, with faults to inject.

It has what a client needs that loads tables and commits to them; tables are created in the catalog behind it.
"""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import CommitTableRequest

_SEPARATOR = "\x1f"


class RestRequest(NamedTuple):
    """A request: "config", "namespaces", "tables", "load" or "commit", and the table's name."""

    operation: str
    name: tuple[str, ...]


class RestRefusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, kind: str, message: str = ""):
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message or kind


Act = Callable[[RestRequest], None]


class IcebergRest(ThreadingHTTPServer):
    """The server.

    Parameters
    ----------
    catalog : pyiceberg's, which several threads may use at once.
    config : settings of the store, which are sent with each table.

    Attributes
    ----------
    uri : for pyiceberg's `RestCatalog`.
    log : the requests so far.
    before, after : called with each request, before and after it is carried out; they may raise `RestRefusal`, or
        `ConnectionError` to hang up.
    """

    daemon_threads = True

    def __init__(self, catalog: Any, config: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog, self.config = copy.copy(catalog), config
        self.catalog._write_metadata = _write_metadata
        self.uri = f"http://127.0.0.1:{self.server_port}"
        self.log: list[RestRequest] = []
        self.before: Act = lambda request: None
        self.after: Act = lambda request: None
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def handle_error(self, *_: object) -> None:
        """Clients that were killed hang up."""

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def answer(self, method: str, target: str, body: bytes) -> dict[str, Any]:
        """Carry a request out and return its answer; raise RestRefusal for errors."""
        url = urlsplit(target)
        parts = [unquote(part) for part in url.path.removeprefix("/v1/").split("/")]
        request = _read_request(method, parts)
        self.log.append(request)
        self.before(request)
        try:
            answer = self._carry_out(request, parse_qs(url.query), body)
        except CommitFailedException as error:
            raise RestRefusal(409, "CommitFailedException", str(error)) from None
        except NoSuchTableError as error:
            raise RestRefusal(404, "NoSuchTableException", str(error)) from None
        except NoSuchNamespaceError as error:
            raise RestRefusal(404, "NoSuchNamespaceException", str(error)) from None
        self.after(request)
        return answer

    def _carry_out(self, request: RestRequest, query: dict[str, list[str]], body: bytes) -> dict[str, Any]:
        catalog, name = self.catalog, request.name
        if request.operation == "config":
            return {"defaults": {}, "overrides": {}}
        if request.operation == "namespaces":
            parent = tuple(query["parent"][0].split(_SEPARATOR)) if "parent" in query else ()
            return {"namespaces": [list(one) for one in catalog.list_namespaces(parent)]}
        if request.operation == "tables":
            tables = catalog.list_tables(name)
            return {"identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in tables]}
        table = catalog.load_table(name)
        if request.operation == "commit":
            asked = CommitTableRequest.model_validate_json(body)
            done = catalog.commit_table(table, asked.requirements, asked.updates)
            return {"metadata-location": done.metadata_location, "metadata": _as_json(done.metadata)}
        location = table.metadata_location
        return {"metadata-location": location, "metadata": _as_json(table.metadata), "config": self.config}


def _as_json(metadata: Any) -> Any:
    return metadata.model_dump(mode="json", by_alias=True, exclude_none=True)


def _write_metadata(metadata: Any, io: Any, metadata_path: str) -> None:
    """Write a metadata file of any version; pyiceberg refuses to write those of version 3."""
    with io.new_output(metadata_path).create() as stream:
        stream.write(json.dumps(_as_json(metadata)).encode())


def _read_request(method: str, parts: list[str]) -> RestRequest:
    match parts:
        case ["config"]:
            return RestRequest("config", ())
        case ["namespaces"] if method == "GET":
            return RestRequest("namespaces", ())
        case ["namespaces", namespace, "tables"] if method == "GET":
            return RestRequest("tables", tuple(namespace.split(_SEPARATOR)))
        case ["namespaces", namespace, "tables", table]:
            return RestRequest("commit" if method == "POST" else "load", (*namespace.split(_SEPARATOR), table))
    raise RestRefusal(406, "UnsupportedOperationException", f"{method} {'/'.join(parts)}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: IcebergRest

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, answer = 200, self.server.answer(self.command, self.path, body)
        except RestRefusal as refusal:
            status = refusal.status
            answer = {"error": {"message": refusal.message, "type": refusal.kind, "code": refusal.status}}
        except ConnectionError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
