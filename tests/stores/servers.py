"""Object stores that run on loopback, each in a folder of its own: Ceph's radosgw, Swift, s3rver, azurite, and moto.

`tools/stores.sh` installs them. A `Store` is what tests see of one: its address, credentials, a new bucket, and
the objects in it by another client than the one that is tested.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / ".cache" / "stores" / "node_modules"
INSTALL = "bash tools/stores.sh installs it"
_DEBIANS_PYTHON = "/usr/bin/python3"
_PATIENCE = 60.0


class NotInstalled(Exception):
    """A store's server is not on this machine."""


class NotStarted(Exception):
    """A store's server ended, or did not answer in time."""


class Processes:
    """Programs that run until the end of a `with`, and what they printed in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "AWS_", "AZURE_", "CEPH_", "LD_")) and not name.lower().endswith("_proxy")
        }

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for _, process in self._running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # nothing that they hold is kept
            process.kill()  # one that has left its group
        for _, process in self._running:
            process.wait()
        self._running.clear()

    def run(self, *command: str | Path, **more: Any) -> str:
        """Run a program to its end and return what it printed."""
        result = subprocess.run(
            [str(word) for word in command],
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            **more,
        )
        if result.returncode:
            raise NotStarted(f"{command[0]} ended with {result.returncode}: {result.stderr[-2000:]}")
        return result.stdout

    def start(self, name: str, *command: str | Path) -> None:
        """Start a program in a group of processes of its own, which the kernel ends when the tests are killed."""
        words = [str(word) for word in command]
        if setpriv := shutil.which("setpriv"):
            words = [setpriv, "--pdeathsig", "KILL", *words]
        with (self.folder / f"{name}.out").open("wb") as output:
            process = subprocess.Popen(
                words,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self._running.append((name, process))

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something is so.

        Raises
        ------
        NotStarted
            If a program ends before, or a minute is over.
        """
        end = time.monotonic() + _PATIENCE
        while not ready():
            for name, process in self._running:
                if process.poll() is not None:
                    printed = (self.folder / f"{name}.out").read_text(errors="replace")[-2000:]
                    raise NotStarted(f"{name} ended with {process.returncode}: {printed}")
            if time.monotonic() > end:
                raise NotStarted(f"{[name for name, _ in self._running]} did not answer within {_PATIENCE:.0f} s")
            time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, as far as that can be known."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def answers(port: int, path: str = "/", status: int | None = None) -> bool:
    """Return whether an HTTP server answers there, with a status if one is given."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return status is None or answer.status == status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Store:
    """A store that runs.

    Attributes
    ----------
    name : of the fixture and in tables.
    endpoint : its URL.
    access_key, secret_key : of a user that may do everything.
    page : how many objects one answer lists at most.
    """

    name: ClassVar[str]
    page: ClassVar[int] = 1000
    scheme: ClassVar[str] = "s3"

    def __init__(self, port: int, access_key: str = "testing", secret_key: str = "testing") -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.access_key, self.secret_key = access_key, secret_key
        self._client: Any = None

    @classmethod
    def version(cls) -> str:
        """Return the name and version of the server, for tables."""
        raise NotImplementedError

    @property
    def storage_options(self) -> dict[str, str]:
        """Options under obstore's names, for the endpoint of the store itself."""
        return self.options()

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """Return options under obstore's names; the endpoint may be that of a proxy."""
        return {
            "aws_endpoint": endpoint or self.endpoint,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }

    def new_client(self, endpoint: str | None = None) -> Any:
        """Return a boto3 client of the store, or of a proxy before it, where it tries everything once."""
        import boto3
        from botocore.config import Config

        config = Config(
            # A busy server may close a kept connection in the moment in which it is used again.
            retries={"total_max_attempts": 2 if endpoint is None else 1},
            connect_timeout=5,
            read_timeout=20,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"},
        )
        return boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint or self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=config,
        )

    @property
    def client(self) -> Any:
        """One boto3 client for what tests set up and look at."""
        if self._client is None:
            self._client = self.new_client()
        return self._client

    def create_bucket(self) -> str:
        """Make a bucket and return its name."""
        bucket = f"lake-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=bucket)
        return bucket

    def url(self, bucket: str, key: str) -> str:
        """Return the URL of an object."""
        return f"{self.scheme}://{bucket}/{key}"

    def put(self, bucket: str, key: str, data: bytes, **more: Any) -> str:
        """Write an object and return its etag, in quotes."""
        return str(self.client.put_object(Bucket=bucket, Key=key, Body=data, **more)["ETag"])

    def put_in_parts(self, bucket: str, key: str, data: bytes) -> str:
        """Write an object of more than 5 MiB in two parts and return its etag, in quotes."""
        where = {"Bucket": bucket, "Key": key}
        upload = self.client.create_multipart_upload(**where)["UploadId"]
        parts = []
        for number, part in enumerate((data[: 5 << 20], data[5 << 20 :]), 1):
            etag = self.client.upload_part(**where, UploadId=upload, PartNumber=number, Body=part)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
        end = self.client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": parts})
        return str(end["ETag"])

    def get(self, bucket: str, key: str) -> bytes | None:
        """Return the object's bytes; None if there is none."""
        try:
            return bytes(self.client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except self.client.exceptions.NoSuchKey:
            return None

    def close(self) -> None:
        """Leave no connection open."""
        if self._client is not None:
            self._client.close()


class Radosgw(Store):
    """Ceph's gateway before one monitor and one OSD, which holds all objects in memory."""

    name = "radosgw"

    @classmethod
    def version(cls) -> str:
        return "Ceph radosgw " + _output("radosgw", "--version").split()[2]

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[Radosgw]:
        """Start it; NotInstalled if it is not here."""
        _require("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "monmaptool")
        monitor, port = free_ports(2)
        cluster, disk = str(uuid.uuid4()), str(uuid.uuid4())
        address = f"[v2:127.0.0.1:{monitor}]"
        for part in ("mon", "osd", "run"):
            (folder / part).mkdir()
        (folder / "ceph.conf").write_text(_CEPH.format(folder=folder, cluster=cluster, address=address, port=port))
        key = base64.b64encode(struct.pack("<HIIH", 1, int(time.time()), 0, 16) + os.urandom(16)).decode()
        (folder / "keyring").write_text(_KEYRING.format(key=key))
        configured = ("--conf", folder / "ceph.conf")
        with Processes(folder) as processes:
            processes.run("monmaptool", "--create", "--fsid", cluster, "--addv", "a", address, "monmap")
            keys = ("--keyring", folder / "keyring")
            processes.run("ceph-mon", *configured, "--mkfs", "-i", "a", "--monmap", "monmap", *keys)
            processes.start("mon", "ceph-mon", *configured, "-i", "a", "-f")
            processes.run("ceph", *configured, "osd", "new", disk)
            processes.run("ceph-osd", *configured, "-i", "0", "--mkfs", "--osd-uuid", disk)
            processes.start("osd", "ceph-osd", *configured, "-i", "0", "-f")
            user = ("--uid=tests", "--display-name=tests", "--access-key=testing", "--secret-key=testing")
            processes.run("radosgw-admin", *configured, "user", "create", *user)
            processes.start("radosgw", "radosgw", *configured, "-n", "client.admin", "-f")
            processes.until(lambda: answers(port, status=200))
            yield cls(port)


_CEPH = """\
[global]
fsid = {cluster}
mon_host = {address}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
keyring = {folder}/keyring
run_dir = {folder}/run
admin_socket =
pid_file =
log_file = {folder}/$name.log
mon_cluster_log_file = {folder}/cluster.log
log_to_stderr = false
err_to_stderr = true
ms_bind_ipv6 = false
ms_bind_msgr1 = false
auth_allow_insecure_global_id_reclaim = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_data = {folder}/run
[mon]
mon_data = {folder}/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 1
paxos_propose_interval = 0.05
[osd]
osd_data = {folder}/osd
osd_objectstore = memstore
memstore_device_bytes = 8589934592
osd_class_load_list = *
osd_class_default_list = *
"""
_KEYRING = """\
[mon.]
key = {key}
caps mon = "allow *"
[client.admin]
key = {key}
caps mon = "allow *"
caps osd = "allow *"
[osd.0]
key = {key}
caps mon = "allow profile osd"
caps osd = "allow *"
"""


class Swift(Store):
    """OpenStack's store, used through its s3api: one server of each kind and one folder for its disk."""

    name = "swift"
    page = 100

    @classmethod
    def version(cls) -> str:
        return "Swift s3api " + _output(_DEBIANS_PYTHON, "-c", "import swift; print(swift.__version__)").strip()

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[Swift]:
        """Start it; NotInstalled if it is not here."""
        kinds = ("account", "container", "object", "proxy")
        _require(*(f"swift-{kind}-server" for kind in kinds))
        try:
            (folder / "disks" / "one").mkdir(parents=True)
            os.setxattr(folder / "disks", "user.parquet_bloom", b"1")
        except OSError as error:
            raise NotInstalled(f"Swift needs a file system with extended attributes: {error}") from error
        ports = dict(zip(kinds, free_ports(4), strict=True))
        (folder / "swift.conf").write_text(f"[swift-hash]\nswift_hash_path_suffix = {uuid.uuid4().hex}\n")
        for kind in kinds:
            common = _SWIFT.format(folder=folder)
            text = _SWIFT_PROXY if kind == "proxy" else _SWIFT_SERVER.replace("KIND", kind)
            (folder / f"{kind}.conf").write_text(common + text)
        with Processes(folder) as processes:
            script = Path(__file__).with_name("swift_server.py")
            processes.start("swift", _DEBIANS_PYTHON, "-B", script, folder, json.dumps(ports))
            processes.until(lambda: all(answers(port, "/healthcheck", 200) for port in reversed(ports.values())))
            yield cls(ports["proxy"], "test:tester")


_SWIFT = """\
[DEFAULT]
swift_dir = {folder}
devices = {folder}/disks
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
log_level = ERROR
"""
_SWIFT_SERVER = """\
[pipeline:main]
pipeline = healthcheck KIND-server
[filter:healthcheck]
use = egg:swift#healthcheck
[app:KIND-server]
use = egg:swift#KIND
recon_cache_path = /nonexistent
"""
# Tempauth wants a memcached to be named; nothing is lost when none answers.
_SWIFT_PROXY = """\
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api
    tempauth copy slo dlo symlink proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
check_bucket_owner = false
max_bucket_listing = 100
location = us-east-1
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
""" + "".join(
    f"[filter:{name}]\nuse = egg:swift#{name}\n"
    for name in (
        "catch_errors",
        "gatekeeper",
        "healthcheck",
        "listing_formats",
        "bulk",
        "copy",
        "slo",
        "dlo",
        "symlink",
    )
)


class S3rver(Store):
    """s3rver, a small server for tests on Node.js."""

    name = "s3rver"

    @classmethod
    def version(cls) -> str:
        return "s3rver " + _node_version("s3rver")

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[S3rver]:
        """Start it; NotInstalled if it is not here."""
        script = _node("s3rver", "bin/s3rver.js")
        (port,) = free_ports(1)
        with Processes(folder) as processes:
            where = ("--address", "127.0.0.1", "--port", str(port), "--directory", folder / "data")
            processes.start("s3rver", "node", script, *where, "--silent", "--no-vhost-buckets")
            processes.until(lambda: answers(port))
            yield cls(port, "S3RVER", "S3RVER")


class Azurite(Store):
    """Microsoft's server for tests of Azure's blob store; the key is the one that it always has."""

    name = "azurite"
    page = 5000
    scheme = "az"
    _KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    @classmethod
    def version(cls) -> str:
        return "azurite " + _node_version("azurite")

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[Azurite]:
        """Start it; NotInstalled if it is not here."""
        script = _node("azurite", "dist/src/blob/main.js")
        (port,) = free_ports(1)
        with Processes(folder) as processes:
            where = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder)
            quiet = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
            processes.start("azurite", "node", script, *where, *quiet)
            processes.until(lambda: answers(port))
            yield cls(port, "devstoreaccount1", cls._KEY)

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "azure_storage_account_name": self.access_key,
            "azure_storage_account_key": self.secret_key,
            "azure_endpoint": f"{endpoint or self.endpoint}/{self.access_key}",
            "allow_http": "true",
        }

    def create_bucket(self) -> str:
        """Make a container and return its name; by a signed request, as nothing installed can make one."""
        bucket = f"lake-{uuid.uuid4().hex[:12]}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        account = self.access_key
        resource = f"/{account}/{account}/{bucket}\nrestype:container"
        signed = "PUT" + "\n" * 12 + "".join(f"{name}:{text}\n" for name, text in headers.items()) + resource
        digest = hmac.new(base64.b64decode(self.secret_key), signed.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
        connection = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=20)
        try:
            connection.request("PUT", f"/{account}/{bucket}?restype=container", headers=headers)
            answer = connection.getresponse()
            if answer.status != 201:
                raise NotStarted(f"azurite makes no container: {answer.status} {answer.read()!r}")
        finally:
            connection.close()
        return bucket

    def put(self, bucket: str, key: str, data: bytes, **more: Any) -> str:
        return str(self._store(bucket).put(key, data)["e_tag"])

    def get(self, bucket: str, key: str) -> bytes | None:
        try:
            return bytes(self._store(bucket).get(key).bytes())
        except FileNotFoundError:
            return None

    def _store(self, bucket: str) -> Any:
        from obstore.store import from_url

        options = self.options()
        allowed = {"allow_http": options.pop("allow_http")}
        return from_url(f"az://{bucket}", config=options, client_options=allowed)


class Moto(Store):
    """moto's server, made to enforce conditions (`s3_server`); it runs in the tests' own process."""

    name = "moto"
    conditions: ClassVar[bool] = True

    @classmethod
    def version(cls) -> str:
        import moto

        return f"moto {moto.__version__}, " + ("made to enforce conditions" if cls.conditions else "without conditions")

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[Moto]:
        """Start it; NotInstalled if it is not here."""
        try:
            from support.servers import s3_server
        except ImportError as error:
            raise NotInstalled(f"moto's server ({error})") from error
        for server in s3_server.serve(conditions=cls.conditions):
            yield cls(urlsplit(server.endpoint).port or 0)


class LaxMoto(Moto):
    """A variant that ignores all conditions of requests."""

    name = "moto-lax"
    conditions = False


class PlainMoto(Moto):
    """moto's server as it comes."""

    name = "moto-plain"

    @classmethod
    def version(cls) -> str:
        import moto

        return f"moto {moto.__version__}"

    @classmethod
    @contextmanager
    def run(cls, folder: Path) -> Iterator[PlainMoto]:
        """Start it; NotInstalled if it is not here."""
        try:
            from moto.moto_server.threaded_moto_server import ThreadedMotoServer
        except ImportError as error:
            raise NotInstalled(f"moto's server ({error})") from error
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        try:
            yield cls(server.get_host_and_port()[1])
        finally:
            server.stop()


DEFAULT = ("radosgw", "moto", "moto-lax")


def cases(*names: str) -> list[Any]:
    """The stores of a test; CI runs two, and the second in a lax variant, the long tier all."""
    import pytest

    return [name if name in DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in names]


STORES: dict[str, type[Any]] = {kind.name: kind for kind in (Radosgw, Swift, S3rver, Azurite, Moto, LaxMoto, PlainMoto)}


@contextmanager
def running(name: str, new_folder: Callable[[], Path]) -> Iterator[Store]:
    """Start a store by its name; another process may take a port meanwhile, so it is tried again.

    Raises
    ------
    NotInstalled
        If it is not on this machine.
    """
    for more_tries in (2, 1, 0):
        with ExitStack() as stack:
            try:
                store: Store = stack.enter_context(STORES[name].run(new_folder()))
            except NotStarted:
                if more_tries:
                    continue
                raise
            stack.callback(store.close)
            yield store
            return


def _require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise NotInstalled(f"{program} is missing; {INSTALL}")


def _node(package: str, script: str) -> Path:
    path = NODE / package / script
    if shutil.which("node") is None or not path.is_file():
        raise NotInstalled(f"{package} is missing; {INSTALL}")
    return path


def _node_version(package: str) -> str:
    return str(json.loads((NODE / package / "package.json").read_text())["version"])


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
