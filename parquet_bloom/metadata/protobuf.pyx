# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A bounded cursor over protocol buffers, the encoding of an ORC file's metadata.

Nothing here trusts the bytes: every length and depth is checked against the rest of the buffer before it is used, and
values are counted, so that malformed input ends in MalformedOrcError and never in an over-read, a huge allocation or a
hang.

Source: "Encoding" of the Protocol Buffers documentation; orc_proto.proto for the messages (orc/orc_tail.py).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ..errors import MalformedOrcError

# What a field's value is.
cpdef enum:
    UINT = 1      # varint
    INT = 2       # varint, two's complement
    SINT = 3      # varint, zigzag
    BOOL = 4      # varint
    DOUBLE = 5    # 8 bytes
    BYTES = 6     # copied
    SPAN = 7      # its start and end in the buffer
    MESSAGE = 8   # a nested message, as a dict

cdef enum:
    WIRE_VARINT = 0
    WIRE_FIXED64 = 1
    WIRE_BYTES = 2
    WIRE_FIXED32 = 5
    MAX_DEPTH = 32          # of messages in messages; ORC's nest five deep
    MAX_VALUES = 1 << 20    # values that one call turns into Python objects


cdef class Cursor:
    """A position in a buffer; every read checks the buffer's end first."""

    cdef object owner
    cdef const uint8_t* data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end
    cdef Py_ssize_t remaining  # values that may still be created

    def __cinit__(self, const uint8_t[::1] buffer not None, Py_ssize_t start=0, Py_ssize_t end=-1):
        if end < 0:
            end = buffer.shape[0]
        if start < 0 or start > end or end > buffer.shape[0]:
            raise MalformedOrcError(f"a message is said to be bytes {start} to {end} of {buffer.shape[0]}")
        self.owner = buffer
        self.data = &buffer[0] if buffer.shape[0] else NULL
        self.pos = start
        self.end = end
        self.remaining = MAX_VALUES

    cdef int fail(self, str problem) except -1:
        raise MalformedOrcError(f"metadata: {problem} at byte {self.pos} of {self.end}")

    cdef int need(self, uint64_t num_bytes) except -1:
        if num_bytes > <uint64_t>(self.end - self.pos):
            self.fail(f"{num_bytes} bytes are announced, {self.end - self.pos} remain")
        return 0

    cdef int count(self) except -1:
        self.remaining -= 1
        if self.remaining < 0:
            self.fail(f"more than {MAX_VALUES} values")
        return 0

    cdef uint64_t varint(self) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef uint8_t byte
        while shift < 70:
            if self.pos >= self.end:
                self.fail("a number is cut off")
            byte = self.data[self.pos]
            self.pos += 1
            if shift < 64:
                value |= <uint64_t>(byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        self.fail("a number of more than ten bytes")

    cdef Py_ssize_t length(self) except -1:
        """Read the length prefix of a value, and check that the entire value is in the buffer."""
        cdef uint64_t length = self.varint()
        self.need(length)
        return <Py_ssize_t>length

    cdef uint64_t fixed64(self) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t value = 0
        cdef int i
        self.need(8)
        for i in range(8):
            value |= <uint64_t>self.data[self.pos + i] << (8 * i)
        self.pos += 8
        return value

    cdef int64_t field(self, int* wire) except -1:
        """Read the number and the wire type of the next field."""
        cdef uint64_t tag = self.varint()
        wire[0] = <int>(tag & 7)
        tag >>= 3
        if tag == 0 or tag >= 1 << 29:
            self.fail(f"field number {tag} does not exist")
        if wire[0] == 3 or wire[0] == 4:
            self.fail(f"field {tag} is a group, which is not read")
        if wire[0] > WIRE_FIXED32:
            self.fail(f"wire type {wire[0]} does not exist")
        return <int64_t>tag

    cdef int skip(self, int wire) except -1:
        cdef Py_ssize_t length
        if wire == WIRE_VARINT:
            self.varint()
            return 0
        length = 8 if wire == WIRE_FIXED64 else 4 if wire == WIRE_FIXED32 else self.length()
        self.need(length)
        self.pos += length
        return 0

    cdef object number(self, int kind):
        cdef uint64_t value = self.fixed64() if kind == DOUBLE else self.varint()
        cdef double real
        if kind == DOUBLE:
            memcpy(&real, &value, 8)
            return real
        if kind == UINT:
            return value
        if kind == BOOL:
            return value != 0
        if kind == SINT:
            return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
        return <int64_t>value

    cdef object value(self, int kind, object inner, int depth):
        cdef Py_ssize_t start, length, end
        self.count()
        if kind < BYTES:
            return self.number(kind)
        length = self.length()
        start = self.pos
        if kind == MESSAGE:
            end = self.end
            self.end = start + length
            nested = self.message(inner, depth + 1)
            self.end = end
            return nested
        self.pos += length
        return (start, start + length) if kind == SPAN else PyBytes_FromStringAndSize(
            <const char*>self.data + start, length)

    cdef dict message(self, dict fields, int depth):
        cdef int wire = 0, kind
        cdef int64_t number
        cdef Py_ssize_t end, outer
        cdef dict values_by_name = {}
        if depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting")
        while self.pos < self.end:
            number = self.field(&wire)
            described = fields.get(number)
            if described is None:
                self.skip(wire)
                continue
            name, kind, repeated, inner = described
            if repeated and kind < BYTES and wire == WIRE_BYTES:  # packed
                values = values_by_name.setdefault(name, [])
                end = self.length() + self.pos
                outer = self.end
                self.end = end
                while self.pos < end:
                    self.count()
                    values.append(self.number(kind))
                self.end = outer
                continue
            if wire != (WIRE_FIXED64 if kind == DOUBLE else WIRE_VARINT if kind < BYTES else WIRE_BYTES):
                self.fail(f"field {number} ({name}) has wire type {wire}")
            value = self.value(kind, inner, depth)
            if repeated:
                values_by_name.setdefault(name, []).append(value)
            else:
                values_by_name[name] = value
        return values_by_name


def read_message(const uint8_t[::1] buffer not None, dict fields not None, Py_ssize_t start=0, Py_ssize_t end=-1):
    """Read a message as a dict of its fields by name. Of duplicate fields the last one counts.

    Parameters
    ----------
    buffer, start, end : the location of the message; to the end of the buffer by default.
    fields : number -> (name, kind, repeated, fields of a nested message). Other fields are ignored.

    Raises
    ------
    MalformedOrcError
        The bytes are not such a message.
    """
    return Cursor(buffer, start, end).message(fields, 0)


def read_spans(const uint8_t[::1] buffer not None, int64_t number, Py_ssize_t start=0, Py_ssize_t end=-1):
    """Locate the values of a repeated field of bytes or messages, as an (n, 2) int64 array of start and end.

    Raises
    ------
    MalformedOrcError
    """
    cdef Cursor cursor = Cursor(buffer, start, end)
    cdef Py_ssize_t count = 0, length
    cdef int wire = 0, turn
    cdef int64_t[:, ::1] out = None
    for turn in range(2):  # count first, then allocate
        cursor.pos = start
        count = 0
        while cursor.pos < cursor.end:
            if cursor.field(&wire) != number:
                cursor.skip(wire)
                continue
            if wire != WIRE_BYTES:
                cursor.fail(f"field {number} has wire type {wire}")
            length = cursor.length()
            if turn:
                out[count, 0], out[count, 1] = cursor.pos, cursor.pos + length
            cursor.pos += length
            count += 1
        if not turn:
            spans = np.empty((count, 2), np.int64)
            out = spans
    return spans


cdef Py_ssize_t _words(Cursor cursor, int wire, char* out) except -1:
    """Skip 64-bit words, one or packed, and copy them to `out` if not NULL; return their bytes."""
    cdef Py_ssize_t length = 8 if wire == WIRE_FIXED64 else cursor.length()
    cursor.need(length)
    if length % 8:
        cursor.fail(f"{length} bytes are not 64-bit words")
    if out != NULL:
        memcpy(out, cursor.data + cursor.pos, length)
    cursor.pos += length
    return length


def read_bloom_filter(const uint8_t[::1] buffer not None, Py_ssize_t start=0, Py_ssize_t end=-1):
    """Read a BloomFilter message.

    Returns
    -------
    num_hash_functions : None if the message does not say.
    words : the concatenated words of the field `bitset`, as bytes; None if there are none.
    utf8bitset : the bytes of that field; None if it is missing.

    Raises
    ------
    MalformedOrcError
        The bytes are not such a message; the layout of unreleased Hive versions is recognized by its wire types.
    """
    cdef Cursor cursor = Cursor(buffer, start, end)
    cdef int wire = 0
    cdef int64_t number
    cdef Py_ssize_t num_bytes = 0, length
    functions = words = utf8 = None
    while cursor.pos < cursor.end:
        number = cursor.field(&wire)
        if number == 1 and wire == WIRE_VARINT:
            functions = cursor.varint()
        elif number == 2 and (wire == WIRE_FIXED64 or wire == WIRE_BYTES):
            num_bytes += _words(cursor, wire, NULL)
        elif number == 3 and wire == WIRE_BYTES:
            length = cursor.length()
            utf8 = PyBytes_FromStringAndSize(<const char*>cursor.data + cursor.pos, length)
            cursor.pos += length
        elif number == 3 and wire == WIRE_VARINT:
            cursor.fail("a Bloom filter as Hive wrote them before its release, which tell nothing for sure,")
        elif number <= 3:
            cursor.fail(f"field {number} of a Bloom filter has wire type {wire}")
        else:
            cursor.skip(wire)
    if num_bytes:
        words = PyBytes_FromStringAndSize(NULL, num_bytes)
        cursor.pos = start
        num_bytes = 0
        while cursor.pos < cursor.end:
            if cursor.field(&wire) == 2:
                num_bytes += _words(cursor, wire, PyBytes_AS_STRING(words) + num_bytes)
            else:
                cursor.skip(wire)
    return functions, words, utf8
