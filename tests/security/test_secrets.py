"""Secrets in some sixty places, and ten faults with each: nothing that is shown to anybody holds one."""

from __future__ import annotations

import base64
import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from click.testing import CliRunner
from obstore.store import HTTPStore, S3Store
from support.servers.fault_server import FAULTS, FaultServer, closed_port

import parquet_bloom
from parquet_bloom import redaction
from parquet_bloom.cli import tool
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.util import messages

MARK = "hUsH"
SECRET = f"{MARK}4ever/and+{MARK}5=="
PASSWORD = f"{MARK}word{MARK}"
SIGNED = (
    f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F{MARK}&X-Amz-Expires=60"
    f"&X-Amz-Security-Token={quote(SECRET)}&X-Amz-Signature={MARK}0123456789abcdef"
)
SAS = f"sv=2022-11-02&sp=r&se=2030-01-01&sig={quote(SECRET, safe='')}"
HIDES_IN = [MARK, base64.b64encode(MARK.encode()).decode().rstrip("="), quote(SECRET), "%68UsH"]

QUICK = {"max_retries": 0, "timeout": "100ms", "connect_timeout": "100ms", "retry_timeout": 1, "allow_http": True}
S3 = {**QUICK, "aws_region": "us-east-1", "aws_access_key_id": "AKIA0", "aws_secret_access_key": "plain-enough"}
ACCOUNT = base64.b64encode(SECRET.encode()).decode()


class Shown:
    """All texts of one fault that anybody may see."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def error(self, error: BaseException) -> None:
        """Show an exception in every way, with all that led to it."""
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        log = messages.logger("parquet_bloom.tests.secrets")
        log.propagate = False
        log.addHandler(handler)
        try:
            log.error("it failed: %s", error, exc_info=error)
        finally:
            log.removeHandler(handler)
        self.texts += [stream.getvalue(), "".join(traceback.format_exception(error))]
        seen: set[int] = set()
        chain: list[BaseException | None] = [error]
        while chain:
            one = chain.pop()
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                self.texts += [str(one), repr(one), repr(getattr(one, "args", ())), repr(vars(one))]
                chain += [one.__cause__, one.__context__]
        if isinstance(error, ParquetBloomError):
            assert str(pickle.loads(pickle.dumps(error))) == str(error)
            self.texts += [repr(pickle.dumps(error)), f"{error.path}", error.problem]
            self.texts.append(f"{getattr(error, 'filename', '')}")

    def refused(self, ask: Callable[[], object]) -> None:
        """Ask for what cannot be, and show the error."""
        with pytest.raises(ParquetBloomError) as caught:
            ask()
        self.error(caught.value)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    server = FaultServer()
    server.signed = SIGNED
    yield server
    server.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, server: FaultServer) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    parquet_bloom.write_table(pa.table({"id": [1, 2]}), folder / "a.parquet", ["id"])
    server.data = (folder / "a.parquet").read_bytes()
    # All that obstore asks of this one is answered, so that it is boto3's turn.
    server.good = lambda head: "boto3.parquet" in head.split()[1] + head and "Boto3" not in head
    return folder


@pytest.fixture
def with_each_fault(
    server: FaultServer, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Shown, str], object]], None]:
    """Do something at a server's address while the server fails in each way; nothing that is shown has a secret."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level(logging.WARNING)

    def run(act: Callable[[Shown, str], object]) -> None:
        for fault in FAULTS:
            redaction.forget()
            server.fault = fault
            shown = Shown()
            act(shown, {"refused": closed_port(), "dns": "lake.invalid"}.get(fault, server.address))
            assert shown.texts
            for text in [*shown.texts, caplog.text]:
                for mark in HIDES_IN:
                    at = text.find(mark)
                    assert at < 0, (fault, text[max(0, at - 300) : at + 100])

    return run


# Options, in which @ is the server's address.
ENDPOINT = {"aws_endpoint": "http://@"}
AZURE = {**QUICK, "azure_storage_account_name": "account", "azure_endpoint": "http://@"}
KEY = f"-----BEGIN PRIVATE KEY-----\n{MARK}{MARK}Line1\n{MARK}{MARK}Line2\n-----END PRIVATE KEY-----\n"
SERVICE = {"private_key": KEY, "private_key_id": f"{MARK}id", "client_email": "a@b", "disable_oauth": False}
OPTIONS: dict[str, dict[str, Any]] = {
    **{
        f"user of {name}": {**S3, name: f"http://user:{PASSWORD}@@"}
        for name in ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url", "AWS_ENDPOINT_URL")
    },
    "token in an endpoint": {**S3, "aws_endpoint": f"http://{MARK}@@"},
    "endpoint that is not a URL": {**S3, "aws_endpoint": f"ftp://user:{PASSWORD}@@"},
    "password with a slash": {**S3, "aws_endpoint": f"http://user:{MARK}/x{MARK}@@"},
    **{
        name: {key: text for key, text in S3.items() if "secret" not in name or "secret" not in key}
        | {name: SECRET, **ENDPOINT}
        for name in (
            "aws_secret_access_key",
            "secret_access_key",
            "aws_session_token",
            "session_token",
            "aws_token",
            "aws_secret_acess_key",
        )
    },
    "no duration": {**S3, "timeout": f"http://u:{PASSWORD}@@"},
    "proxy of S3": {**S3, "aws_endpoint": "http://lake.invalid", "proxy_url": f"http://u:{PASSWORD}@@"},
    **{
        f"header {name}": {**S3, **ENDPOINT, "default_headers": {name: text}}
        for name, text in (("Authorization", f"Bearer {SECRET}"), ("Cookie", SECRET), ("x-api-key", SECRET))
    },
    "az: account key": {**AZURE, "azure_storage_account_key": ACCOUNT},
    "az: SAS token": {**AZURE, "azure_storage_sas_token": SAS},
    "az: bearer token": {**AZURE, "azure_storage_token": SECRET},
    "gs: service account": {**QUICK, "google_service_account_key": json.dumps({**SERVICE, "gcs_base_url": "http://@"})},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_secrets_of_options(name: str, with_each_fault: Any) -> None:
    scheme = name.partition(": ")[0] if ": " in name else "s3"

    def act(shown: Shown, address: str) -> None:
        options = {
            key: re.sub("(?<=[/@])@", address, value) if isinstance(value, str) else value
            for key, value in OPTIONS[name].items()
        }
        shown.refused(lambda: parquet_bloom.open(f"{scheme}://lake/a.parquet", storage_options=options))
        shown.texts.append(repr(parquet_bloom.storage.resolve_filesystem(None, options)))
        try:  # an answer that is not a listing may be taken for an empty one
            parquet_bloom.prune(f"{scheme}://lake/", "id = 1", storage_options=options)
        except ParquetBloomError as error:
            shown.error(error)

    with_each_fault(act)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (f"http://user:{PASSWORD}@@/a.parquet", {}),
        (f"http://{PASSWORD}@@/a.parquet", {}),
        (f"http://@/a.parquet?{SIGNED}", {}),
        (f"http://@/a.parquet?{SAS}", {}),
        (f"http://@/a.parquet?access_token={SECRET}&key={MARK}", {}),
        (f"http://@/a.parquet?x={MARK}#{MARK}=1", {}),
        (f"http://@/a.parquet?{SIGNED}", {"default_headers": {"Authorization": f"Basic {ACCOUNT}"}}),
        (f"http://lake.invalid/a?{SIGNED}", {"proxy_url": f"http://u:{PASSWORD}@127.0.0.1:9"}),
    ],
)
def test_secrets_of_urls(url: str, options: dict[str, Any], with_each_fault: Any) -> None:
    def act(shown: Shown, address: str) -> None:
        at = re.sub("(?<=[/@])@", address, url)
        shown.refused(lambda: parquet_bloom.open(at, storage_options={**QUICK, **options}))
        failed: list[ParquetBloomError] = []
        report = parquet_bloom.prune(at, "id = 1", storage_options=QUICK, on_error=failed.append)
        assert failed
        for error in failed:
            shown.error(error)
        shown.texts += [str(report), repr(report), report.explain(), report.to_html(), report._repr_html_()]

    with_each_fault(act)


@pytest.mark.parametrize(
    "variable",
    ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
)
def test_secrets_of_the_environment(variable: str, with_each_fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {**QUICK, "aws_region": "x"}

    def act(shown: Shown, address: str) -> None:
        if "ENDPOINT" in variable:
            monkeypatch.setenv(variable, f"http://user:{PASSWORD}@{address}")
            options["aws_skip_signature"] = True
        else:
            known = {"AWS_ACCESS_KEY_ID": "AKIA0", "AWS_SECRET_ACCESS_KEY": "plain-enough", variable: SECRET}
            for name, value in (known | {"AWS_ENDPOINT_URL": f"http://{address}"}).items():
                monkeypatch.setenv(name, value)
        shown.refused(lambda: parquet_bloom.open("s3://lake/a.parquet", storage_options=options))

    with_each_fault(act)


class Leaky(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A library whose errors contain everything it knows."""

    protocol = "leaky"
    cachable = False

    def _fail(self, *_: Any, **__: Any) -> Any:
        try:
            raise ValueError(f"{self.storage_options}", {"signed": f"https://u:{PASSWORD}@lake.invalid/?{SIGNED}"})
        except ValueError as error:
            raise OSError(5, f"cannot ask {self.storage_options}: {error}", f"https://lake.invalid/?{SAS}") from error

    info = ls = _open = open = find = _fail


ONCE = {
    "client_options": {"allow_http": True, "timeout": "100ms", "connect_timeout": "100ms"},
    "retry_config": {"max_retries": 0},
}


def s3_store(at: str, **config: Any) -> S3Store:
    return S3Store("lake", access_key_id="AKIA0", region="us-east-1", endpoint=f"http://{at}", **ONCE, **config)


FILESYSTEMS: dict[str, Callable[[str], Any]] = {
    "S3Store": lambda at: s3_store(at, secret_access_key=SECRET),
    "S3Store with a token": lambda at: s3_store(at, session_token=SECRET, secret_access_key=SECRET),
    "S3Store at an endpoint": lambda at: s3_store(f"user:{PASSWORD}@{at}", secret_access_key="plain"),
    "HTTPStore": lambda at: HTTPStore(f"http://user:{PASSWORD}@{at}/x?{SIGNED}", **ONCE),
    "fsspec": lambda at: Leaky(account_key=SECRET, token=SECRET, endpoint=at, client_kwargs={"password": PASSWORD}),
    "fsspec below a path": lambda at: pa.fs.SubTreeFileSystem(
        "x", pa.fs.PyFileSystem(pa.fs.FSSpecHandler(Leaky(secret=SECRET, endpoint=at)))
    ),
    "pyarrow's S3FileSystem": lambda at: pa.fs.S3FileSystem(
        access_key="AKIA0",
        secret_key=SECRET,
        session_token=SECRET,
        endpoint_override=at,
        scheme="http",
        region="us-east-1",
        connect_timeout=0.2,
        request_timeout=0.2,
        retry_strategy=pa.fs.AwsStandardS3RetryStrategy(max_attempts=1),
    ),
}


@pytest.mark.parametrize("name", FILESYSTEMS)
def test_secrets_of_file_systems(name: str, with_each_fault: Any) -> None:
    def act(shown: Shown, address: str) -> None:
        filesystem = FILESYSTEMS[name](address)
        shown.refused(lambda: parquet_bloom.open("lake/a.parquet", filesystem))
        if name != "pyarrow's S3FileSystem":  # whose listings wait long for a server that is silent
            shown.refused(lambda: parquet_bloom.prune("lake/a.parquet", "id = 1", filesystem=filesystem))

    with_each_fault(act)


@pytest.mark.parametrize("name", ["boto3's client", "boto3's endpoint", "output", "output's query", "index", "zones"])
def test_secrets_of_calls_that_write_or_ask_twice(name: str, folder: Path, with_each_fault: Any) -> None:
    def act(shown: Shown, address: str) -> None:
        key = {**S3, "aws_secret_access_key": SECRET, "aws_session_token": SECRET}
        user = {"aws_endpoint": f"http://user:{PASSWORD}@{address}"}
        options = {
            "boto3's client": {**key, "aws_endpoint": f"http://{address}"},
            "boto3's endpoint": {**S3, **user},
        }.get(name, {**key, **user})
        if name.startswith("boto3"):
            shown.refused(lambda: parquet_bloom.embed("s3://lake/boto3.parquet", ["id"], storage_options=options))
        elif name == "output":
            table, store = pa.table({"id": [1]}), parquet_bloom.storage.resolve_filesystem(None, options)
            shown.refused(
                lambda: parquet_bloom.write_table(table, "s3://lake/new.parquet", ["id"], storage_options=options)
            )
            report = parquet_bloom.prune(folder / "a.parquet", "id = 1")
            shown.refused(lambda: report.to_html("s3://lake/page.html", filesystem=store))
        elif name == "output's query":
            output = f"http://{address}/b.parquet?{SIGNED}"
            shown.refused(lambda: parquet_bloom.embed(folder / "a.parquet", ["id"], output=output))
        elif name == "index":
            index = "s3://lake/index"
            shown.refused(lambda: parquet_bloom.LakeIndex.open(index, storage_options=options))
            shown.refused(
                lambda: parquet_bloom.prune("s3://lake/a.parquet", "id = 1", index=index, storage_options=options)
            )
        else:
            zones = f"http://{address}/z?{SIGNED}"
            try:
                report = parquet_bloom.prune(folder / "a.parquet", "id = 1", zones=[zones], storage_options=QUICK)
            except ParquetBloomError as error:  # there are none
                shown.error(error)
            else:
                assert report.zone_doubts
                shown.texts += [*report.zone_doubts, str(report), repr(report), report.explain(), report.to_html()]

    with_each_fault(act)


QUESTION = ("--where", "id = 1")
WITH_SECRET = {**S3, "aws_secret_access_key": SECRET, **ENDPOINT}
WITH_USER = {**S3, "aws_endpoint": f"http://user:{PASSWORD}@@"}
COMMANDS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("show", "-v", "s3://lake/a.parquet"), WITH_SECRET),
    (("prune", "s3://lake/a/", *QUESTION, "--format=json"), WITH_USER),
    (("prune", f"http://@/a?{SIGNED}", *QUESTION, "--json"), {}),
    (("find", "-v", f"http://user:{PASSWORD}@@/a", *QUESTION, "--format=csv"), {}),
    (("find", "FOLDER", *QUESTION, "-o", f"http://@/a.csv?{SIGNED}"), {}),
    (("embed", "s3://lake/boto3.parquet", "--column=id", "--in-place"), WITH_SECRET),
    (("embed", "FOLDER/a.parquet", "--column=id", f"-ohttp://@/a?{SIGNED}"), {}),
    (("verify", f"http://@/a?{SIGNED}", "--format=ndjson"), {}),
    (("advise", f"http://@/a?{SIGNED}", "--json"), {}),
    (("index", "stats", "s3://lake/index"), WITH_USER),
    (("zones", "show", f"http://@/z?{SIGNED}", "--format=csv"), {}),
    (("show", "-v", "a", f"--storage-option={SECRET}"), {}),
]


@pytest.mark.parametrize(("arguments", "options"), COMMANDS, ids=lambda one: one[0] if isinstance(one, tuple) else "")
def test_secrets_of_commands(
    arguments: tuple[str, ...], options: dict[str, Any], folder: Path, with_each_fault: Any
) -> None:
    def act(shown: Shown, address: str) -> None:
        given = [f"--storage-option={key}={value}" for key, value in {**QUICK, **options}.items()]
        words = [re.sub("(?<=[/@])@", address, word).replace("FOLDER", str(folder)) for word in (*arguments, *given)]
        result = CliRunner().invoke(tool, words)
        assert result.exit_code, result.output
        assert "a bug" not in result.stderr, result.stderr
        shown.texts += [result.stdout, result.stderr]

    with_each_fault(act)
