"""Secrets of 40 and more places, and ten faults in each: nothing that is shown to anybody holds one."""

from __future__ import annotations

import base64
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
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


Act = Callable[[Shown, str, Path], object]
SCENARIOS: dict[str, Act] = {}


def scenario(name: str) -> Callable[[Act], Act]:
    def add(act: Act) -> Act:
        SCENARIOS[name] = act
        return act

    return add


def by_option(name: str, options: Callable[[str], Mapping[str, Any]], url: str = "s3://lake/a.parquet") -> None:
    """Open an object, and list a folder, with options that depend on the server's address."""

    def act(shown: Shown, address: str, _: Path) -> None:
        given = {key: value for key, value in options(address).items() if value is not None}
        with pytest.raises(ParquetBloomError) as caught:
            parquet_bloom.open(url, storage_options=given)
        shown.error(caught.value)
        shown.texts.append(repr(parquet_bloom.storage.resolve_filesystem(None, given)))
        if url.startswith("http"):
            return
        try:  # an answer that is not a listing may be taken for an empty one
            parquet_bloom.prune(url.rpartition("/")[0] + "/", "id = 1", storage_options=given)
        except ParquetBloomError as error:
            shown.error(error)

    SCENARIOS[name] = act


def by_url(name: str, url: Callable[[str], str], **options: Any) -> None:
    def act(shown: Shown, address: str, _: Path) -> None:
        failed: list[ParquetBloomError] = []
        with pytest.raises(ParquetBloomError) as caught:
            parquet_bloom.open(url(address), storage_options={**QUICK, **options})
        shown.error(caught.value)
        report = parquet_bloom.prune(url(address), "id = 1", storage_options=QUICK, on_error=failed.append)
        assert failed
        for error in failed:
            shown.error(error)
        shown.texts += [str(report), repr(report), report.explain(), report.to_html(), report._repr_html_()]

    SCENARIOS[name] = act


def by_environment(name: str, variables: Callable[[str], Mapping[str, str]], **options: Any) -> None:
    def act(shown: Shown, address: str, _: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in variables(address).items():
                patch.setenv(variable, value)
            with pytest.raises(ParquetBloomError) as caught:
                parquet_bloom.open("s3://lake/a.parquet", storage_options={**QUICK, "aws_region": "x", **options})
            shown.error(caught.value)

    SCENARIOS[name] = act


def by_filesystem(name: str, make: Callable[[str], Any], path: str = "lake/a.parquet") -> None:
    def act(shown: Shown, address: str, _: Path) -> None:
        filesystem = make(address)
        for ask in (
            parquet_bloom.open,
            lambda path, filesystem: parquet_bloom.prune(path, "id = 1", filesystem=filesystem),
        ):
            with pytest.raises(ParquetBloomError) as caught:
                ask(path, filesystem=filesystem)
            shown.error(caught.value)

    SCENARIOS[name] = act


def by_command(name: str, *arguments: str, options: Callable[[str], Mapping[str, Any]] = lambda _: {}) -> None:
    def act(shown: Shown, address: str, folder: Path) -> None:
        given = [f"--storage-option={key}={value}" for key, value in {**QUICK, **options(address)}.items()]
        words = [part.format(address=address, folder=folder, secret=SECRET, password=PASSWORD) for part in arguments]
        result = CliRunner().invoke(tool, [*words, *given])
        assert result.exit_code, result.output
        assert "a bug" not in result.stderr, result.stderr
        shown.texts += [result.stdout, result.stderr]

    SCENARIOS[name] = act


for spelled in ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url", "AWS_ENDPOINT_URL"):
    by_option(f"user of {spelled}", lambda at, spelled=spelled: {**S3, spelled: f"http://user:{PASSWORD}@{at}"})
by_option("token in an endpoint", lambda at: {**S3, "aws_endpoint": f"http://{MARK}@{at}"})
by_option("endpoint that is not a URL", lambda at: {**S3, "aws_endpoint": f"ftp://user:{PASSWORD}@{at}"})
by_option("password with a slash", lambda at: {**S3, "aws_endpoint": f"http://user:{MARK}/x{MARK}@{at}"})
for spelled in ("aws_secret_access_key", "secret_access_key", "aws_session_token", "session_token", "aws_token"):
    config = {**S3, "aws_secret_access_key": None} if "secret" in spelled else S3
    by_option(spelled, lambda at, o=config, s=spelled: {**o, s: SECRET, "aws_endpoint": f"http://{at}"})
by_option("mistyped", lambda at: {**S3, "aws_secret_acess_key": SECRET, "aws_endpoint": f"http://{at}"})
by_option("no duration", lambda at: {**S3, "timeout": f"http://u:{PASSWORD}@{at}"})
by_option(
    "proxy of S3", lambda at: {**S3, "aws_endpoint": "http://lake.invalid", "proxy_url": f"http://u:{PASSWORD}@{at}"}
)
for header in ("Authorization", "Cookie", "x-api-key"):
    text = f"Bearer {SECRET}" if header == "Authorization" else SECRET
    by_option(
        f"header {header}",
        lambda at, h=header, t=text: {**S3, "aws_endpoint": f"http://{at}", "default_headers": {h: t}},
    )
azure = {**QUICK, "azure_storage_account_name": "account"}
AZ = "az://lake/a.parquet"
by_option(
    "account key", lambda at: {**azure, "azure_storage_account_key": ACCOUNT, "azure_endpoint": f"http://{at}"}, AZ
)
by_option("SAS token", lambda at: {**azure, "azure_storage_sas_token": SAS, "azure_endpoint": f"http://{at}"}, AZ)
by_option("bearer token", lambda at: {**azure, "azure_storage_token": SECRET, "azure_endpoint": f"http://{at}"}, AZ)
KEY = f"-----BEGIN PRIVATE KEY-----\n{MARK}{MARK}Line1\n{MARK}{MARK}Line2\n-----END PRIVATE KEY-----\n"
SERVICE = {"private_key": KEY, "private_key_id": f"{MARK}id", "client_email": "a@b", "disable_oauth": False}
by_option(
    "service account key",
    lambda at: {**QUICK, "google_service_account_key": json.dumps({**SERVICE, "gcs_base_url": f"http://{at}"})},
    "gs://lake/a.parquet",
)

by_url("user of a URL", lambda at: f"http://user:{PASSWORD}@{at}/a.parquet")
by_url("token of a URL", lambda at: f"http://{PASSWORD}@{at}/a.parquet")
by_url("signed URL", lambda at: f"http://{at}/a.parquet?{SIGNED}")
by_url("shared access signature", lambda at: f"http://{at}/a.parquet?{SAS}")
by_url("token in a query", lambda at: f"http://{at}/a.parquet?access_token={SECRET}&key={MARK}")
by_url("anything in a query", lambda at: f"http://{at}/a.parquet?x={MARK}#{MARK}=1")
by_url(
    "web's header", lambda at: f"http://{at}/a.parquet?{SIGNED}", default_headers={"Authorization": f"Basic {ACCOUNT}"}
)
by_url("web's proxy", lambda at: f"http://lake.invalid/a?{SIGNED}", proxy_url=f"http://u:{PASSWORD}@127.0.0.1:9")

for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"):
    by_environment(variable, lambda at, v=variable: {v: f"http://user:{PASSWORD}@{at}"}, aws_skip_signature=True)
for variable in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
    known = {"AWS_ACCESS_KEY_ID": "AKIA0", "AWS_SECRET_ACCESS_KEY": "plain-enough", variable: SECRET}
    by_environment(variable, lambda at, v=known: {**v, "AWS_ENDPOINT_URL": f"http://{at}"})

by_filesystem("S3Store", lambda at: s3_store(at, secret_access_key=SECRET))
by_filesystem("S3Store with a token", lambda at: s3_store(at, session_token=SECRET, secret_access_key=SECRET))
by_filesystem("S3Store at an endpoint", lambda at: s3_store(f"user:{PASSWORD}@{at}", secret_access_key="plain"))
by_filesystem(
    "HTTPStore",
    lambda at: HTTPStore(
        f"http://user:{PASSWORD}@{at}/x?{SIGNED}",
        client_options={"allow_http": True, "timeout": "100ms"},
        retry_config={"max_retries": 0},
    ),
)
by_filesystem(
    "fsspec", lambda at: Leaky(account_key=SECRET, token=SECRET, endpoint=at, client_kwargs={"password": PASSWORD})
)
by_filesystem(
    "fsspec below a path",
    lambda at: pa.fs.SubTreeFileSystem("x", pa.fs.PyFileSystem(pa.fs.FSSpecHandler(Leaky(secret=SECRET, endpoint=at)))),
)


def s3_store(at: str, **config: Any) -> S3Store:
    return S3Store(
        "lake",
        access_key_id="AKIA0",
        region="us-east-1",
        endpoint=f"http://{at}",
        client_options={"allow_http": True, "timeout": "100ms"},
        retry_config={"max_retries": 0},
        **config,
    )


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


@scenario("pyarrow's S3FileSystem")
def _(shown: Shown, address: str, _: Path) -> None:
    filesystem = pa.fs.S3FileSystem(
        access_key="AKIA0",
        secret_key=SECRET,
        session_token=SECRET,
        endpoint_override=address,
        scheme="http",
        region="us-east-1",
        connect_timeout=0.2,
        request_timeout=0.2,
        retry_strategy=pa.fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.open("lake/a.parquet", filesystem)
    shown.error(caught.value)


@scenario("boto3's client")
def _(shown: Shown, address: str, folder: Path) -> None:
    options = {**S3, "aws_secret_access_key": SECRET, "aws_session_token": SECRET, "aws_endpoint": f"http://{address}"}
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.embed("s3://lake/boto3.parquet", ["id"], storage_options=options)
    shown.error(caught.value)


@scenario("boto3's endpoint")
def _(shown: Shown, address: str, folder: Path) -> None:
    options = {**S3, "aws_endpoint": f"http://user:{PASSWORD}@{address}"}
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.embed("s3://lake/boto3.parquet", ["id"], storage_options=options)
    shown.error(caught.value)


@scenario("output")
def _(shown: Shown, address: str, folder: Path) -> None:
    options = {**S3, "aws_secret_access_key": SECRET, "aws_endpoint": f"http://user:{PASSWORD}@{address}"}
    for write in (
        lambda: parquet_bloom.write_table(
            pa.table({"id": [1]}), "s3://lake/new.parquet", ["id"], storage_options=options
        ),
        lambda: parquet_bloom.prune(folder / "a.parquet", "id = 1").to_html(
            "s3://lake/page.html", filesystem=parquet_bloom.storage.resolve_filesystem(None, options)
        ),
    ):
        with pytest.raises(ParquetBloomError) as caught:
            write()
        shown.error(caught.value)


@scenario("output's query")
def _(shown: Shown, address: str, folder: Path) -> None:
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.embed(folder / "a.parquet", ["id"], output=f"http://{address}/b.parquet?{SIGNED}")
    shown.error(caught.value)


@scenario("index")
def _(shown: Shown, address: str, folder: Path) -> None:
    options = {**S3, "aws_session_token": SECRET, "aws_endpoint": f"http://user:{PASSWORD}@{address}"}
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.LakeIndex.open("s3://lake/index", storage_options=options)
    shown.error(caught.value)
    with pytest.raises(ParquetBloomError) as caught:
        parquet_bloom.prune("s3://lake/a.parquet", "id = 1", index="s3://lake/index", storage_options=options)
    shown.error(caught.value)


@scenario("zones")
def _(shown: Shown, address: str, folder: Path) -> None:
    zones = f"http://{address}/z?{SIGNED}"
    try:
        report = parquet_bloom.prune(folder / "a.parquet", "id = 1", zones=[zones], storage_options=QUICK)
    except ParquetBloomError as error:  # there are none
        shown.error(error)
    else:
        assert report.zone_doubts
        shown.texts += [*report.zone_doubts, str(report), repr(report), report.explain(), report.to_html()]


def with_secret(at: str) -> dict[str, Any]:
    return {**S3, "aws_secret_access_key": SECRET, "aws_endpoint": f"http://{at}"}


def with_user(at: str) -> dict[str, Any]:
    return {**S3, "aws_endpoint": f"http://user:{PASSWORD}@{at}"}


QUESTION = ("--where", "id = 1")
by_command("command show", "show", "-v", "s3://lake/a.parquet", options=with_secret)
by_command("command prune", "prune", "s3://lake/a/", *QUESTION, "--format=json", options=with_user)
by_command("command prune of a URL", "prune", f"http://{{address}}/a?{SIGNED}", *QUESTION, "--json")
by_command("command find", "find", "-v", f"http://user:{PASSWORD}@{{address}}/a", *QUESTION, "--format=csv")
by_command("command find -o", "find", "{folder}", *QUESTION, "-o", f"http://{{address}}/a.csv?{SIGNED}")
by_command("command embed", "embed", "s3://lake/boto3.parquet", "--column=id", "--in-place", options=with_secret)
by_command("command embed -o", "embed", "{folder}/a.parquet", "--column=id", f"-ohttp://{{address}}/a?{SIGNED}")
by_command("command verify", "verify", f"http://{{address}}/a?{SIGNED}", "--format=ndjson")
by_command("command advise", "advise", f"http://{{address}}/a?{SIGNED}", "--json")
by_command("command index", "index", "stats", "s3://lake/index", options=with_user)
by_command("command zones", "zones", "show", f"http://{{address}}/z?{SIGNED}", "--format=csv")
by_command("command with a mistake", "show", "-v", "a", f"--storage-option={SECRET}")


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


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    redaction.forget()


def test_there_are_enough() -> None:
    assert len(SCENARIOS) >= 40
    assert len(FAULTS) == 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_shown(name: str, server: FaultServer, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for fault in FAULTS:
        redaction.forget()
        server.fault = fault
        address = {"refused": closed_port(), "dns": "lake.invalid"}.get(fault, server.address)
        shown = Shown()
        SCENARIOS[name](shown, address, folder)
        assert shown.texts
        for text in [*shown.texts, caplog.text]:
            for mark in HIDES_IN:
                at = text.find(mark)
                assert at < 0, (name, fault, text[max(0, at - 300) : at + 100])
