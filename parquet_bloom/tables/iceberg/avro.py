"""Read Avro files by pyiceberg's reader, but with a decoder that checks bounds.

pyiceberg's own decoder is compiled, and trusts the lengths and counts in a file: a few damaged bytes end the process.
Its reader also takes the end of a file that is cut short for its end.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ...errors import ParquetBloomError

_SYNC = 16  # bytes that each block ends with
_LONGEST_INT = 70  # bits


def read_avro(file_io: Any, path: str, name: str, length: int | None = None) -> tuple[Any, Iterator[Any]]:
    """Return the schema of an Avro file, pyiceberg's, and its records.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    path : the file.
    name : of the table, for errors.
    length : bytes of the file, if known.

    Raises
    ------
    ParquetBloomError
        The file is cut short.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read.
    """
    with file_io.new_input(path).open() as stream:
        data = stream.read()
    if length is not None and length != len(data):
        raise ParquetBloomError(f"its file {path} has {len(data)} bytes instead of {length}", path=name)
    reader = _open_reader(data)
    if data[-_SYNC:] != reader.header.sync:
        raise ParquetBloomError(f"its file {path} is cut short", path=name)
    return reader.schema, iter(reader)


def _open_reader(data: bytes) -> Any:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.file import AvroFile, Block
    from pyiceberg.avro.resolver import resolve_reader

    class Decoder(BinaryDecoder):
        """Decodes bytes, and raises EOFError where they end."""

        def __init__(self, source: bytes) -> None:
            self._data = source
            self._at = 0

        def tell(self) -> int:
            return self._at

        def read(self, n: int) -> bytes:
            start = self._at
            end = start + n
            if n < 0 or end > len(self._data):
                raise EOFError(f"{n} bytes are to be read of {len(self._data) - start}")
            self._at = end
            return self._data[start:end]

        def skip(self, n: int) -> None:
            self.read(n)

        def read_int(self) -> int:
            at = self._at
            if at < len(self._data) and (byte := self._data[at]) < 0x80:
                self._at = at + 1
                return (byte >> 1) ^ -(byte & 1)
            return self.read_ints(1)[0]

        def read_ints(self, n: int) -> tuple[int, ...]:
            at, source = self._at, self._data
            if n > len(source) - at:
                raise EOFError(f"{n} numbers are to be read of {len(source) - at} bytes")
            numbers = []
            try:
                for _ in range(n):
                    byte = source[at]
                    at += 1
                    number, shift = byte & 0x7F, 7
                    while byte >= 0x80:
                        byte = source[at]
                        at += 1
                        number |= (byte & 0x7F) << shift
                        shift += 7
                        if shift > _LONGEST_INT:
                            raise EOFError("a number does not end")
                    numbers.append((number >> 1) ^ -(number & 1))
            except IndexError:
                raise EOFError("a number is to be read at the end") from None
            self._at = at
            return tuple(numbers)

        def read_int_bytes_dict(self, n: int, dest: dict[int, bytes]) -> None:
            if n > len(self._data) - self._at:
                raise EOFError(f"{n} entries are to be read of {len(self._data) - self._at} bytes")
            for _ in range(n):
                key = self.read_int()
                dest[key] = self.read(self.read_int())

    class Reader(AvroFile[Any]):
        """Opens a file in memory, with that decoder for each of its blocks."""

        block: Any

        def __enter__(self) -> Any:
            self.decoder = Decoder(data)
            self.header = self._read_header()
            self.schema = self.read_schema = self.header.get_schema()
            self.reader = resolve_reader(self.schema, self.read_schema, self.read_types, self.read_enums)
            return self

        def __next__(self) -> Any:
            while self.block is None or not self.block.has_next():
                if self.decoder.tell() + (_SYNC if self.block else 0) == len(data):
                    raise StopIteration
                self._read_block()
            return next(self.block)

        def _read_block(self) -> int:
            count: int = _read_sync_and_count(self.decoder, self.header.sync if self.block else None)
            content = self.decoder.read(self.decoder.read_int())
            codec = self.header.compression_codec()
            content = codec.decompress(content) if codec else content
            if count < 0 or count > len(content):
                raise EOFError(f"a block of {len(content)} bytes cannot have {count} records")
            self.block = Block(reader=self.reader, block_records=count, block_decoder=Decoder(content))
            return count

    with Reader(io.BytesIO()) as opened:
        return opened


def _read_sync_and_count(decoder: Any, sync: bytes | None) -> int:
    if sync is not None and decoder.read(_SYNC) != sync:
        raise ValueError("a block does not end with the file's marker")
    return int(decoder.read_int())
