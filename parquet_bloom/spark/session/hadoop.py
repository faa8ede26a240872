"""Files of Hadoop's file systems, read by the driver's JVM: with Spark's own connectors, settings and credentials."""

from __future__ import annotations

import errno
import io
import threading
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary, WeakValueDictionary

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import StorageError, first_line
from ...redaction import redacted, without_secrets
from ...util.threads import in_order
from .paths import listed_path

# Every call from Python to the JVM goes over a socket, and there is none among Hadoop's that opens a file, reads a part
# and closes it. This one does; Spark's own compiler of generated code is at hand to compile it. It gives texts: py4j
# decodes arrays of bytes one by one in Python, which takes longer than most storage does. And it lets sockets send what
# they have: those that py4j opens wait for up to 40 ms at the end of an answer of more than 8 KB (Nagle's algorithm).
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
_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # a gateway each: what makes our object in its JVM
_compiling = threading.Lock()

_NUMBERS = {
    "FileNotFoundException": errno.ENOENT,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "ConnectException": errno.ECONNREFUSED,
}
_HDFS = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_THREADS = 32  # they wait for answers
_WORTH_LISTING = 4  # files of a folder: so many are asked for by a list of it
_WRAPPERS = ("ExecutionException", "CompletionException", "UncheckedIOException", "InvocationTargetException")


class _Listed(NamedTuple):
    """A file or folder as the JVM tells of it.

    Attributes
    ----------
    uri : as Spark writes it, percent-encoded.
    is_folder, size : what it is, and its length in bytes.
    mtime_ns : when it was modified, in nanoseconds since 1970; Hadoop knows milliseconds.
    """

    uri: str
    is_folder: bool
    size: int
    mtime_ns: int


def hadoop_filesystem(
    spark: SparkSession,
    known: Mapping[str, tuple[int, int]] | None = None,
    options: Mapping[str, Any] | None = None,
    scheme: str = "",
) -> PyFileSystem:
    """A pyarrow file system, for reading only, over all file systems that the driver's JVM can read.

    Its paths are URIs with nothing encoded in them, as Spark's reader takes them: `hdfs://host/a b`. Any number of
    threads may read at a time. A read is one call of the JVM's, which opens the file anew.

    Parameters
    ----------
    spark : a classic session.
    known : {path: (size in bytes, time of modification in ns)} of files that were listed, and so need not be asked for
        again. A file that was replaced since is noticed by `HadoopFiles.changed` only.
    options : of the DataFrame; they are part of Hadoop's configuration, as in Spark's own scan.
    scheme : of all paths, if there is but one. HDFS's files are known again by their times; other systems' times say
        too little (S3's are of the second in which an upload began).

    Raises
    ------
    StorageError
        The JVM does not let itself be used.
    """
    return PyFileSystem(HadoopFiles(_java_files(spark, options or {}), known or {}, scheme in _HDFS))


def _java_files(spark: SparkSession, options: Mapping[str, Any]) -> Any:
    """The object in the session's JVM that reads for us."""
    jvm: Any = spark._jvm
    gateway: Any = spark._sc._gateway
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
            with suppress(Py4JError, PySparkException):  # it is slower without
                files.quicken(gateway.java_gateway_server)
        return files
    except (Py4JError, PySparkException, TypeError) as error:
        raise StorageError(f"the driver's JVM does not read for Python: {_reason(error)[0]}") from without_secrets(
            error
        )


class HadoopFiles(FileSystemHandler):  # type: ignore[misc]
    """What pyarrow asks of a file system."""

    own_positions = True  # files that were opened of one path may be read side by side

    def __init__(self, java: Any, known: Mapping[str, tuple[int, int]], of_hdfs: bool = False):
        self._java = java
        self._of_hdfs = of_hdfs
        self._known = dict(known)
        self._as_opened: dict[str, tuple[int, int]] = {}
        self._in_parts: dict[str, bool] = {}  # of files that were read
        # Whoever opens a file asks about it at once: what opening it took is told again, to that thread.
        self._opened: WeakValueDictionary[tuple[str, int], _File] = WeakValueDictionary()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopFiles) and self._java is other._java

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "hdfs" if self._of_hdfs else "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[FileInfo]:
        several = list(paths)
        if len(several) == 1:
            path = several[0]
            return [self._listed(path) or self._just_opened(path) or self._info(path)]
        with in_order(self._info, several, min(_THREADS, max(1, len(several)))) as infos:
            return list(infos)

    def _just_opened(self, path: str) -> FileInfo | None:
        file = self._opened.pop((path, threading.get_ident()), None)
        return None if file is None or file.closed else file.info

    def _listed(self, path: str) -> FileInfo | None:
        known = self._known.get(path)
        return None if known is None else FileInfo(path, FileType.File, size=known[0], mtime_ns=known[1])

    def _info(self, path: str) -> FileInfo:
        try:
            (found,) = _told(_called(path, self._java.status, path))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)
        return _info_of(path, found)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        folder = selector.base_dir
        try:
            found = [*_told(_called(folder, self._java.list, folder))]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        infos = [_info_of(listed_path(one.uri), one) for one in found]
        if selector.recursive:
            for info in [info for info in infos if info.type == FileType.Directory]:
                infos += self.get_file_info_selector(FileSelector(info.path, recursive=True))
        return infos

    def open_input_file(self, path: str) -> pa.NativeFile:
        info = self._listed(path) or self._info(path)
        if info.type == FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)
        if info.type != FileType.File:
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        self._as_opened[path] = info.size, info.mtime_ns
        file = self._opened[path, threading.get_ident()] = _File(self._read, info)
        return pa.PythonFile(file, mode="r")

    open_input_stream = open_input_file

    def _read(self, info: FileInfo, offset: int, length: int) -> bytes:
        # Who has read the file's end, and no more, has seen one state of it.
        self._in_parts[info.path] = info.path in self._in_parts or offset + length < info.size
        name, modified = info.path, info.mtime_ns // 1_000_000
        return b64decode(_called(name, self._java.read, name, info.size, modified, offset, length))

    def look(self, paths: Iterable[str]) -> None:
        """Learn the state of files, in fewer requests than asking for each: those of a folder by a list of it.

        What cannot be told is asked when the file is opened.
        """
        self._known.update(self._states(paths))

    def changed(self, paths: Iterable[str]) -> set[str]:
        """Which files may be others by now than those that were read.

        Only those are asked for of which parts were read, one after the other, or beside what was remembered. Of the
        others one state was seen: it is the one that was opened.
        """
        doubtful = [path for path in paths if self._in_parts.get(path)]
        now = self._states(doubtful)
        return {path for path in doubtful if now.get(path) != self._as_opened[path]}

    def _states(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Size and time of modification (ns) of the files for which the JVM tells them."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        work = list(folders.items())
        if not work:
            return {}
        several = [(folder, [path]) for folder, inside in work if len(inside) < _WORTH_LISTING for path in inside]
        work = several + [item for item in work if len(item[1]) >= _WORTH_LISTING]
        found: dict[str, tuple[int, int]] = {}
        with in_order(self._states_in, work, min(_THREADS, len(work))) as states:
            for some in states:
                found.update(some)
        return found

    def _states_in(self, work: tuple[str, list[str]]) -> dict[str, tuple[int, int]]:
        folder, wanted = work
        infos: list[FileInfo] = []
        if len(wanted) >= _WORTH_LISTING:
            with suppress(OSError, StorageError):  # it may not be listed
                infos = self.get_file_info_selector(FileSelector(folder + "/"))
        for path in [] if infos else wanted:
            with suppress(OSError, StorageError):  # opening it says what is wrong
                infos.append(self._info(path))
        inside = set(wanted)
        files = [info for info in infos if info.type == FileType.File and info.path in inside]
        return {info.path: (info.size, info.mtime_ns) for info in files}

    def _read_only(self, *_: Any, **__: Any) -> NoReturn:
        raise StorageError("files behind the driver's JVM can only be read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _read_only
    move = copy_file = open_output_stream = open_append_stream = _read_only


class _File(io.RawIOBase):
    """A file opened: a position, for which nothing is open in the JVM."""

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
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        data = self._read(self.info, self._position, length)
        self._position += length
        return data


def _info_of(path: str, found: _Listed) -> FileInfo:
    if found.is_folder:
        return FileInfo(path, FileType.Directory, mtime_ns=found.mtime_ns)
    return FileInfo(path, FileType.File, size=found.size, mtime_ns=found.mtime_ns)


def _told(lines: str) -> Iterator[_Listed]:
    """What the JVM wrote, a line each; in a URI a line break is encoded."""
    for line in lines.split("\n")[:-1]:
        is_folder, size, modified, uri = line.split(" ", 3)
        yield _Listed(uri, is_folder == "true", int(size), int(modified) * 1_000_000)


def _called(path: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """What a method of the JVM's returns; the error it throws as one of ours."""
    try:
        return method(*arguments)
    except (Py4JError, PySparkException, OSError) as error:
        reason, number = _reason(error)
        # Of the class that pyarrow looks for, where the number has one; the reader says which file it is.
        raise (
            OSError(number, reason, redacted(path)) if number else StorageError(reason, path=path)
        ) from without_secrets(error)


def _reason(error: Exception) -> tuple[str, int | None]:
    """Why the JVM failed, on one line, and the system's number for that if it has one."""
    if not isinstance(error, Py4JJavaError):
        return first_line(error), None
    try:
        cause: Any = error.java_exception
        name = cause.getClass().getSimpleName()
        while name in _WRAPPERS and cause.getCause() is not None:
            cause = cause.getCause()
            name = cause.getClass().getSimpleName()
        text = (cause.getMessage() or "").strip().splitlines()
    except Py4JError:  # the JVM is gone by now
        return "the JVM does not answer", None
    number = _NUMBERS.get(name)
    text = [*map(redacted, text)]
    return (text[0] if text and number else f"{name}: {text[0]}" if text else name), number
