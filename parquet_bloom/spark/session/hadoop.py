"""Files of Hadoop's file systems, read by the driver's JVM with Spark's own connectors, settings and credentials."""

from __future__ import annotations

import errno
import io
import re
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary, WeakValueDictionary

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import StorageError, first_line
from ...redaction import redacted, without_secrets
from ...storage import object_location, resolve_filesystem
from ...util.threads import in_order
from .jvm import JavaObject, is_classic
from .session_settings import CannotPush, find_scheme, listed_path

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

# Every call from Python to the JVM goes over a socket, and no method of Hadoop opens a file, reads a part and closes it
# in one call. This class does; Spark's own compiler of generated code compiles it. It returns texts, as py4j decodes
# arrays of bytes one by one in Python, which is slower than most storage. It also disables Nagle's algorithm: sockets
# of py4j would wait for up to 40 ms at the end of an answer of more than 8 KB.
_JAVA = """
public class ParquetBloomFiles implements py4j.GatewayServerListener {
  private final org.apache.hadoop.conf.Configuration conf;

  public ParquetBloomFiles(org.apache.hadoop.conf.Configuration conf) { this.conf = conf; }

  public String read(String name, long size, long modified, long offset, int length) throws Exception {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(name);
    org.apache.hadoop.fs.FileSystem files = path.getFileSystem(conf);
    org.apache.hadoop.fs.FileStatus status =
        new org.apache.hadoop.fs.FileStatus(size, false, 1, 0L, modified, files.makeQualified(path));
    org.apache.hadoop.fs.FutureDataInputStreamBuilder builder = files.openFile(path).withFileStatus(status);
    builder.opt("fs.option.openfile.read.policy", "random");
    java.util.concurrent.Future opening = (java.util.concurrent.Future) builder.build();
    org.apache.hadoop.fs.FSDataInputStream stream = (org.apache.hadoop.fs.FSDataInputStream) opening.get();
    try {
      byte[] bytes = new byte[length];
      stream.readFully(offset, bytes, 0, length);
      return java.util.Base64.getEncoder().encodeToString(bytes);
    } finally {
      stream.close();
    }
  }

  public void quicken(py4j.GatewayServer server) throws Exception {
    server.addListener(this);
    java.lang.reflect.Field field = py4j.GatewayServer.class.getDeclaredField("connections");
    field.setAccessible(true);
    Object[] connections = ((java.util.List) field.get(server)).toArray();
    for (int i = 0; i < connections.length; i++) connectionStarted((py4j.Py4JServerConnection) connections[i]);
  }

  public void connectionStarted(py4j.Py4JServerConnection connection) {
    try {
      connection.getSocket().setTcpNoDelay(true);
    } catch (java.net.SocketException error) { }
  }

  public void connectionError(Exception error) { }
  public void connectionStopped(py4j.Py4JServerConnection connection) { }
  public void serverError(Exception error) { }
  public void serverPostShutdown() { }
  public void serverPreShutdown() { }
  public void serverStarted() { }
  public void serverStopped() { }

  public String status(String name) throws Exception {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(name);
    return line(path.getFileSystem(conf).getFileStatus(path));
  }

  public String list(String name) throws Exception {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(name);
    org.apache.hadoop.fs.FileStatus[] found = path.getFileSystem(conf).listStatus(path);
    StringBuilder lines = new StringBuilder();
    for (int i = 0; i < found.length; i++) lines.append(line(found[i]));
    return lines.toString();
  }

  private static String line(org.apache.hadoop.fs.FileStatus file) {
    return file.isDirectory() + " " + file.getLen() + " " + file.getModificationTime() + " "
        + file.getPath().toUri().toString() + "\\n";
  }
}
"""
_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by gateway: the constructor of our class in its JVM
_compiling = threading.Lock()

_NUMBERS = {
    "FileNotFoundException": errno.ENOENT,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "ConnectException": errno.ECONNREFUSED,
}
_HDFS = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_THREADS = 32  # they mostly wait for answers
_MIN_TO_LIST = 4  # files in a folder, from which on the folder is listed instead
_WRAPPERS = ("ExecutionException", "CompletionException", "UncheckedIOException", "InvocationTargetException")


class _FileStatus(NamedTuple):
    """The status of a file or folder, as the JVM reports it.

    Attributes
    ----------
    uri : percent-encoded, as Spark writes it.
    is_folder : whether it is a folder.
    size : length in bytes.
    mtime_ns : time of modification, in nanoseconds since 1970; Hadoop's resolution is milliseconds.
    """

    uri: str
    is_folder: bool
    size: int
    mtime_ns: int


def hadoop_filesystem(
    spark: SparkSession,
    states: Mapping[str, tuple[int, int]] | None = None,
    options: Mapping[str, Any] | None = None,
    scheme: str = "",
) -> PyFileSystem:
    """Make a read-only pyarrow file system over all file systems that the driver's JVM can read.

    Its paths are URIs without percent-encoding, as Spark's reader accepts them: `hdfs://host/a b`. Any number of
    threads may read concurrently. Each read is one call into the JVM, which opens the file anew.

    Parameters
    ----------
    spark : a classic session.
    states : {path: (size in bytes, time of modification in ns)} of files that were listed, whose status is then not
        requested again. Files that were replaced since are detected by `HadoopFiles.find_changed` only.
    options : options of the DataFrame, which become part of Hadoop's configuration, as in Spark's own scan.
    scheme : scheme of all paths, if they have only one. Files of HDFS are identified by their times; times of other
        systems are not precise enough (those of S3 are the second in which an upload began).

    Raises
    ------
    StorageError
        The JVM cannot be used.
    """
    return PyFileSystem(HadoopFiles(_make_java_reader(spark, options or {}), states or {}, scheme in _HDFS))


def _make_java_reader(spark: SparkSession, options: Mapping[str, Any]) -> JavaObject:
    """Make the object in the session's JVM that reads files for us."""
    jvm: JavaObject = spark._jvm
    gateway: JavaObject = spark._sc._gateway
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    try:
        arguments = gateway.new_array(jvm.java.lang.Object, 1)
        state = spark._jsparkSession.sessionState()
        arguments[0] = state.newHadoopConfWithOptions(jvm.PythonUtils.toScalaMap(texts))
        with _compiling:
            is_new = gateway not in _compiled
            if is_new:
                compiler = jvm.org.codehaus.janino.SimpleCompiler()
                compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
                compiler.cook(_JAVA)
                _compiled[gateway] = compiler.getClassLoader().loadClass("ParquetBloomFiles").getConstructors()[0]
            files = _compiled[gateway].newInstance(arguments)
        if is_new:
            with suppress(Py4JError, PySparkException):  # only reads are slower without it
                files.quicken(gateway.java_gateway_server)
        return files
    except (Py4JError, PySparkException, TypeError) as error:
        raise StorageError(
            f"the driver's JVM cannot read files for Python: {_find_reason(error)[0]}"
        ) from without_secrets(error)


class HadoopFiles(FileSystemHandler):  # type: ignore[misc]
    """pyarrow's handler of a file system that the JVM reads."""

    own_positions = True  # several open files of one path may be read concurrently

    def __init__(self, java: JavaObject, states: Mapping[str, tuple[int, int]], is_hdfs: bool = False):
        self._java = java
        self._is_hdfs = is_hdfs
        self._states = dict(states)
        self._as_opened: dict[str, tuple[int, int]] = {}
        self._in_parts: dict[str, bool] = {}  # of the files read so far: whether they were read in several parts
        # Callers request the status of a file right after opening it: the thread then gets the status of the opening.
        self._opened: WeakValueDictionary[tuple[str, int], _File] = WeakValueDictionary()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopFiles) and self._java is other._java

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "hdfs" if self._is_hdfs else "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[FileInfo]:
        items = list(paths)
        if len(items) == 1:
            (path,) = items
            return [self._find_listed(path) or self._find_opened(path) or self._read_info(path)]
        with in_order(self._read_info, items, min(_THREADS, max(1, len(items)))) as infos:
            return list(infos)

    def _find_opened(self, path: str) -> FileInfo | None:
        file = self._opened.pop((path, threading.get_ident()), None)
        return None if file is None or file.closed else file.info

    def _find_listed(self, path: str) -> FileInfo | None:
        state = self._states.get(path)
        return None if state is None else FileInfo(path, FileType.File, size=state[0], mtime_ns=state[1])

    def _read_info(self, path: str) -> FileInfo:
        try:
            (status,) = _parse_statuses(_call(path, self._java.status, path))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)
        return _make_info(path, status)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        folder = selector.base_dir
        try:
            statuses = [*_parse_statuses(_call(folder, self._java.list, folder))]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        infos = [_make_info(listed_path(status.uri), status) for status in statuses]
        if selector.recursive:
            for info in [info for info in infos if info.type == FileType.Directory]:
                infos += self.get_file_info_selector(FileSelector(info.path, recursive=True))
        return infos

    def open_input_file(self, path: str) -> pa.NativeFile:
        info = self._find_listed(path) or self._read_info(path)
        if info.type == FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
        if info.type != FileType.File:
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        self._as_opened[path] = info.size, info.mtime_ns
        file = self._opened[path, threading.get_ident()] = _File(self._read, info)
        return pa.PythonFile(file, mode="r")

    open_input_stream = open_input_file

    def _read(self, info: FileInfo, offset: int, length: int) -> bytes:
        # A file of which only the end was read, in one call, was seen in one state.
        self._in_parts[info.path] = info.path in self._in_parts or offset + length < info.size
        name, modified = info.path, info.mtime_ns // 1_000_000
        return b64decode(_call(name, self._java.read, name, info.size, modified, offset, length))

    def load_states(self, paths: Iterable[str]) -> None:
        """Load the states of files, with one request for all files of a folder if there are several.

        Files whose state is not available are requested again when they are opened.
        """
        self._states.update(self._read_states(paths))

    def find_changed(self, paths: Iterable[str]) -> set[str]:
        """Find the files that may have changed since they were opened.

        Only the states of files that were read in several parts, or in part beside cached data, are requested. Of the
        other files one state was seen, that of the opening.
        """
        candidates = [path for path in paths if self._in_parts.get(path)]
        states = self._read_states(candidates)
        return {path for path in candidates if states.get(path) != self._as_opened[path]}

    def _read_states(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Read size and time of modification (ns) of the files for which the JVM reports them."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        work = list(folders.items())
        if not work:
            return {}
        single = [(folder, [path]) for folder, inside in work if len(inside) < _MIN_TO_LIST for path in inside]
        work = single + [item for item in work if len(item[1]) >= _MIN_TO_LIST]
        states: dict[str, tuple[int, int]] = {}
        with in_order(self._read_states_in, work, min(_THREADS, len(work))) as batches:
            for batch in batches:
                states.update(batch)
        return states

    def _read_states_in(self, work: tuple[str, list[str]]) -> dict[str, tuple[int, int]]:
        folder, paths = work
        infos: list[FileInfo] = []
        if len(paths) >= _MIN_TO_LIST:
            with suppress(OSError, StorageError):  # the folder may not be listable
                infos = self.get_file_info_selector(FileSelector(folder + "/"))
        for path in [] if infos else paths:
            with suppress(OSError, StorageError):  # opening the file reports the error
                infos.append(self._read_info(path))
        requested = set(paths)
        files = [info for info in infos if info.type == FileType.File and info.path in requested]
        return {info.path: (info.size, info.mtime_ns) for info in files}

    def _read_only(self, *_: Any, **__: Any) -> NoReturn:
        raise StorageError("files that the driver's JVM reads cannot be written: they can only be read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _read_only
    move = copy_file = open_output_stream = open_append_stream = _read_only


class _File(io.RawIOBase):
    """An open file: only a position, as the JVM keeps nothing open for it."""

    def __init__(self, read: Callable[[FileInfo, int, int], bytes], info: FileInfo):
        super().__init__()
        self.info = info
        self._read, self._size = read, info.size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        remaining = max(0, self._size - self._position)
        length = remaining if size is None or size < 0 else min(size, remaining)
        if not length:
            return b""
        data = self._read(self.info, self._position, length)
        self._position += length
        return data


def _make_info(path: str, status: _FileStatus) -> FileInfo:
    if status.is_folder:
        return FileInfo(path, FileType.Directory, mtime_ns=status.mtime_ns)
    return FileInfo(path, FileType.File, size=status.size, mtime_ns=status.mtime_ns)


def _parse_statuses(lines: str) -> Iterator[_FileStatus]:
    """Parse the statuses that the JVM returns, one in each line; line breaks in URIs are encoded."""
    for line in lines.split("\n")[:-1]:
        is_folder, size, modified, uri = line.split(" ", 3)
        yield _FileStatus(uri, is_folder == "true", int(size), int(modified) * 1_000_000)


def _call(path: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method in the JVM and convert the error that it throws."""
    try:
        return method(*arguments)
    except (Py4JError, PySparkException, OSError) as error:
        reason, number = _find_reason(error)
        # With a number, Python picks the subclass of OSError that pyarrow expects; the reader adds the file's name.
        raise (
            OSError(number, reason, redacted(path)) if number else StorageError(reason, path=path)
        ) from without_secrets(error)


def _find_reason(error: Exception) -> tuple[str, int | None]:
    """Return the reason of a failure in the JVM, on one line, and the `errno` for it if there is one."""
    if not isinstance(error, Py4JJavaError):
        return first_line(error), None
    try:
        cause: JavaObject = error.java_exception
        name = cause.getClass().getSimpleName()
        while name in _WRAPPERS and cause.getCause() is not None:
            cause = cause.getCause()
            name = cause.getClass().getSimpleName()
        text = (cause.getMessage() or "").strip().splitlines()
    except Py4JError:  # the JVM has ended
        return "the JVM does not answer", None
    number = _NUMBERS.get(name)
    text = [*map(redacted, text)]
    return (text[0] if text and number else f"{name}: {text[0]}" if text else name), number


# Schemes that obstore reads, by Spark's names of them.
OBJECTS = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs")
_WASB = re.compile(r"(wasb)(s?://[^/]*)\.blob\.")


def resolve_storage(
    spark: SparkSession,
    uris: Iterable[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    states: Mapping[str, tuple[int, int]] | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[list[str], FileSystem | None]:
    """Return the paths and the file system by which `prune` and its siblings read files that Spark lists.

    Local files are read directly, others by obstore with the given options, or else by the JVM of a classic session
    with Spark's own settings. Spark Connect has no JVM: object stores are read with the environment's settings.

    Parameters
    ----------
    spark : the session.
    uris : URIs of the files, percent-encoded as Spark writes them.
    storage_options : as in `prune`; None to read remote files as Spark does.
    states : {URI: (size in bytes, time of modification in ns)} from Spark's listing; saves requests.
    options : options of the DataFrame; see `hadoop.hadoop_filesystem`.

    Returns
    -------
    The paths, in the order of the URIs, and the argument `filesystem` for them.

    Raises
    ------
    CannotPush
        There is no way to read them, or they are on several kinds of file systems.
    """
    uris = list(uris)
    schemes = sorted({find_scheme(uri) for uri in uris})
    if len(schemes) > 1:
        raise CannotPush(f"files on several kinds of file systems are not supported: {', '.join(schemes)}")
    paths = list(map(listed_path, uris))
    if not schemes or schemes[0] == "file":
        return paths, None
    try:
        if not storage_options and is_classic(spark):
            listed = {listed_path(uri): state for uri, state in (states or {}).items()}
            return paths, hadoop_filesystem(spark, listed, options, schemes[0])
        if schemes[0] in OBJECTS:
            return list(map(object_url, paths)), resolve_filesystem(None, storage_options)
    except StorageError as error:
        raise CannotPush(str(error)) from error
    if storage_options:
        raise CannotPush(f"storage_options are for object stores, not for {schemes[0]}")
    raise CannotPush(f"without a JVM only local files and object stores can be read, not {schemes[0]}")


@dataclass(frozen=True)
class ExecutorStorage:
    """Settings with which a task reads files of one scheme; instances are sent to executors.

    Attributes
    ----------
    scheme : a result of `find_scheme`.
    options : options of obstore for object stores, of fsspec for other file systems.
    """

    scheme: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def locate(self, path: str) -> tuple[str, FileSystem | None]:
        """Convert a result of `listed_path` to a path for `prune` and its siblings, and their argument `filesystem`.

        Raises
        ------
        StorageError
            The options are not valid for an object store; or fsspec, which reads files that are neither local nor
            objects, is missing or cannot open the path.
        """
        if self.scheme in ("", "file"):
            return path, None
        if self.scheme in OBJECTS:
            url, filesystem = object_url(path), resolve_filesystem(None, self.options)
            object_location(url, filesystem)  # raises now if the options are invalid, which concerns all files
            return url, filesystem
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            problem = f"{self.scheme} is read on executors by fsspec, which is not installed there"
            raise StorageError(problem, path=path) from None
        try:
            filesystem, inside = url_to_fs(path, **self.options)
        except (ImportError, OSError, TypeError, ValueError) as error:
            raise StorageError.wrap(error, "fsspec does not read it", path) from error
        return inside, filesystem


def executor_storage(scheme: str, storage_options: Mapping[str, Any] | None = None) -> ExecutorStorage:
    """Make the settings with which tasks read files of a scheme; see `ExecutorStorage.locate`."""
    return ExecutorStorage(scheme.lower(), dict(storage_options or {}))


def object_url(path: str) -> str:
    """Convert a path to the form that obstore accepts."""
    if path.startswith("s3n:"):
        return "s3" + path[3:]
    return _WASB.sub(r"abfs\2.dfs.", path, count=1)
