# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A bounded cursor over the Thrift compact protocol, and functions that index and splice a Parquet footer with it.

Nothing here trusts the bytes: every length, count and depth is checked against the rest of the buffer before it is
used, so that malformed input ends in MalformedFooterError and never in an over-read, a huge allocation or a hang.

Source: thrift-compact-protocol.md of Apache Thrift; parquet.thrift for the field numbers.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy

import struct as _struct

import numpy as np

from ..errors import MalformedFooterError

# Compact protocol type numbers.
cpdef enum:
    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13

cdef enum:
    MAX_DEPTH = 64  # the format nests eight deep at most; unknown fields get room, the C stack stays safe


cdef class Cursor:
    """A position in a buffer; every read checks the buffer's end first."""

    def __cinit__(self, const uint8_t[::1] buffer not None, Py_ssize_t start=0):
        if start < 0 or start > buffer.shape[0]:
            raise MalformedFooterError(f"a structure is said to begin at byte {start} of {buffer.shape[0]}")
        self.owner = buffer
        self.data = &buffer[0] if buffer.shape[0] else NULL
        self.pos = start
        self.end = buffer.shape[0]
        self.row_group = self.chunk = -1

    cdef int fail(self, str problem) except -1:
        # The name of a column chunk is in what was not read yet.
        where = f", in column chunk {self.chunk}" if self.chunk >= 0 else ""
        problem = f"metadata: {problem} at byte {self.pos} of {self.end}{where}"
        raise MalformedFooterError(problem, row_group=self.row_group if self.row_group >= 0 else None)

    cdef int fail_with(self, const char* problem, int64_t number=0, int64_t other=0) except -1 nogil:
        """Fail with a problem in which `{}` stands for the numbers; without the interpreter until then."""
        with gil:
            return self.fail(problem.decode().format(number, other))

    cdef int need(self, uint64_t num_bytes) except -1 nogil:
        if num_bytes > <uint64_t>(self.end - self.pos):
            with gil:
                self.fail(f"{num_bytes} bytes are announced, {self.end - self.pos} remain")
        return 0

    cdef uint64_t varint(self) except? 0xFFFFFFFFFFFFFFFF nogil:
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef uint8_t byte
        while shift < 70:
            if self.pos >= self.end:
                self.fail_with("a number is cut off")
            byte = self.data[self.pos]
            self.pos += 1
            if shift < 64:
                value |= <uint64_t>(byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        self.fail_with("a number of more than ten bytes")

    cdef int64_t integer(self) except? -9223372036854775807 nogil:
        cdef uint64_t value = self.varint()
        return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)

    cdef bint next_field(self, Field* field) except -1 nogil:
        """Read a field header; False at the end of the struct. `field.id` holds the id before it on entry."""
        cdef uint8_t byte
        self.need(1)
        field.start = self.pos
        byte = self.data[self.pos]
        self.pos += 1
        field.type = byte & 0x0F
        if byte == 0:
            return False
        if field.type < TRUE or field.type > UUID:
            self.fail_with("field type {} does not exist", field.type)
        field.long_form = byte >> 4 == 0
        if field.long_form:
            field.id = self.integer()
        else:
            field.id += byte >> 4
        if field.id < -32768 or field.id > 32767:
            self.fail_with("field number {} does not exist", field.id)
        field.value = self.pos
        return True

    cdef uint64_t list_header(self, int* element_type) except? 0xFFFFFFFFFFFFFFFF nogil:
        cdef uint64_t count
        cdef uint8_t byte
        self.need(1)
        byte = self.data[self.pos]
        self.pos += 1
        element_type[0] = byte & 0x0F
        count = byte >> 4
        if count == 15:
            count = self.varint()
        if count and (element_type[0] < TRUE or element_type[0] > UUID):
            self.fail_with("element type {} does not exist", element_type[0])
        self.need(count)  # no element takes less than a byte
        return count

    cdef int skip(self, int type, int depth, bint element=False) except -1 nogil:
        """Skip a value. A boolean field is stored in its header, a boolean element takes a byte."""
        cdef uint64_t count
        cdef uint64_t i
        cdef int element_type = 0
        cdef int kinds
        cdef Field field
        if depth > MAX_DEPTH:
            self.fail_with("more than {} levels of nesting", MAX_DEPTH)
        if type == TRUE or type == FALSE:
            if element:
                self.need(1)
                self.pos += 1
        elif type == BYTE:
            self.need(1)
            self.pos += 1
        elif type == I16 or type == I32 or type == I64:
            self.varint()
        elif type == DOUBLE:
            self.need(8)
            self.pos += 8
        elif type == UUID:
            self.need(16)
            self.pos += 16
        elif type == BINARY:
            count = self.varint()
            self.need(count)
            self.pos += count
        elif type == LIST or type == SET:
            count = self.list_header(&element_type)
            for i in range(count):
                self.skip(element_type, depth + 1, True)
        elif type == MAP:
            count = self.varint()
            if count:
                self.need(1)
                kinds = self.data[self.pos]
                self.pos += 1
                if not TRUE <= kinds >> 4 <= UUID or not TRUE <= kinds & 0x0F <= UUID:
                    self.fail_with("a map of types that do not exist")
                self.need(count)
                for i in range(count):
                    self.skip(kinds >> 4, depth + 1, True)
                    self.skip(kinds & 0x0F, depth + 1, True)
        elif type == STRUCT:
            field.id = 0
            while self.next_field(&field):
                self.skip(field.type, depth + 1)
        else:
            self.fail_with("type {} does not exist", type)
        return 0

    cdef object value(self, int type, int depth, bint element=False):
        """Read a value as a Python object: int, float, bool, bytes, list, dict of field id -> value."""
        cdef uint64_t count
        cdef uint64_t i
        cdef int element_type = 0
        cdef Py_ssize_t start = self.pos
        cdef Field field
        if depth > MAX_DEPTH:
            self.fail(f"more than {MAX_DEPTH} levels of nesting")
        if type == I16 or type == I32 or type == I64:
            return self.integer()
        if type == TRUE or type == FALSE:
            if not element:
                return type == TRUE
            self.need(1)
            self.pos += 1
            return self.data[start] == TRUE
        if type == BINARY:
            count = self.varint()
            self.need(count)
            start = self.pos
            self.pos += count
            return PyBytes_FromStringAndSize(<const char*>self.data + start, count)
        if type == LIST or type == SET:
            count = self.list_header(&element_type)
            return [self.value(element_type, depth + 1, True) for i in range(count)]
        if type == STRUCT:
            fields = {}
            field.id = 0
            while self.next_field(&field):
                fields[field.id] = self.value(field.type, depth + 1)
            return fields
        self.skip(type, depth, element)
        if type == DOUBLE:
            return _struct.unpack("<d", PyBytes_FromStringAndSize(<const char*>self.data + start, 8))[0]
        if type == BYTE:
            return <signed char>self.data[start]
        return PyBytes_FromStringAndSize(<const char*>self.data + start, self.pos - start)  # uuid and map: raw


def read_struct(const uint8_t[::1] buffer not None, Py_ssize_t start=0):
    """Read one struct: ({field id: value}, position after it). Of duplicate fields the last one counts."""
    cursor = Cursor(buffer, start)
    return cursor.value(STRUCT, 0), cursor.pos


def split_struct(const uint8_t[::1] buffer not None, Py_ssize_t start=0):
    """Split a struct into its fields, without decoding them: ({field id: (type, value)}, position after it).

    A value is its encoded bytes, for BINARY without their length. Of duplicate fields the last one counts.
    """
    cdef Cursor cursor = Cursor(buffer, start)
    cdef Field field
    cdef Py_ssize_t value
    cdef dict fields = {}
    field.id = 0
    while cursor.next_field(&field):
        value = cursor.pos
        if field.type == BINARY:
            fields[field.id] = field.type, cursor.value(field.type, 1)
        else:
            cursor.skip(field.type, 1)
            fields[field.id] = (
                field.type, PyBytes_FromStringAndSize(<const char*>cursor.data + value, cursor.pos - value))
    return fields, cursor.pos


def split_structs(const uint8_t[::1] buffer not None, Py_ssize_t start=0):
    """Split a list of structs into its encoded elements: (elements, position after it)."""
    cdef Cursor cursor = Cursor(buffer, start)
    cdef int element_type = STRUCT
    cdef uint64_t count = cursor.list_header(&element_type)
    cdef uint64_t i
    cdef Py_ssize_t element
    if count and element_type != STRUCT:
        cursor.fail("the elements of a list are not structs")
    elements = []
    for i in range(count):
        element = cursor.pos
        cursor.skip(STRUCT, 2, True)
        elements.append(PyBytes_FromStringAndSize(<const char*>cursor.data + element, cursor.pos - element))
    return elements, cursor.pos


# ---------------------------------------------------------------------------------------------------- writing

cdef int _put_bytes(bytearray out, const uint8_t* data, Py_ssize_t count) except -1:
    cdef Py_ssize_t old = PyByteArray_GET_SIZE(out)
    if count:
        PyByteArray_Resize(out, old + count)
        memcpy(PyByteArray_AS_STRING(out) + old, data, count)
    return 0


cdef int _put_varint(bytearray out, uint64_t value) except -1:
    while value > 0x7F:
        out.append(<uint8_t>(value & 0x7F) | 0x80)
        value >>= 7
    out.append(<uint8_t>value)
    return 0


cdef int _put_integer(bytearray out, int64_t value) except -1:
    return _put_varint(out, (<uint64_t>value << 1) ^ <uint64_t>(value >> 63))


cdef int _put_field(bytearray out, int64_t last_id, int64_t id, int type) except -1:
    if 0 < id - last_id <= 15:
        out.append((<uint8_t>(id - last_id) << 4) | <uint8_t>type)
    else:
        out.append(<uint8_t>type)
        _put_integer(out, id)
    return 0


cdef int _put_value(bytearray out, int type, value) except -1:
    if type != BINARY and isinstance(value, bytes):
        out += value  # encoded already; of booleans nothing, as the field's type is the value
    elif type == STRUCT:
        _put_struct(out, value)
    elif type == LIST:
        element_type, elements = value
        if len(elements) < 15:
            out.append((len(elements) << 4) | <int>element_type)
        else:
            out.append(0xF0 | <int>element_type)
            _put_varint(out, len(elements))
        for element in elements:
            _put_value(out, element_type, element)
    elif type == BINARY:
        _put_varint(out, len(value))
        out += value
    elif type == BYTE:
        out.append(value & 0xFF)
    elif type == I16 or type == I32 or type == I64:
        _put_integer(out, value)
    else:
        raise ValueError(f"type {type} is not written")
    return 0


cdef int _put_struct(bytearray out, fields) except -1:
    cdef int64_t last_id = 0
    for id, type, value in fields:
        _put_field(out, last_id, id, type)
        _put_value(out, type, value)
        last_id = id
    out.append(0)
    return 0


def write_struct(fields):
    """Encode a struct given as (field id, type, value) triples; a list's value is (element type, elements).

    Values that are not BINARY may also be given as encoded bytes, which are copied: those that `split_struct` returns.
    """
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


# ---------------------------------------------------------------------------------------------------- the footer

# One record per column chunk. Everything is int64, -1 for missing values; spans are byte positions in the
# footer. The order is that of the C struct below.
CHUNK_DTYPE = np.dtype([(name, np.int64) for name in (
    "row_group", "column", "start", "meta_start", "meta_end", "physical_type", "codec", "num_values", "uncompressed_size",
    "compressed_size", "data_page_offset", "dictionary_page_offset", "path_start", "statistics_start", "filter_offset",
    "filter_length",
    "filter_fields", "offset_index_offset", "offset_index_length", "column_index_offset", "column_index_length",
    "encrypted", "external", "dictionary_only", "bit_packed")])

ROW_GROUP_DTYPE = np.dtype([(name, np.int64) for name in ("start", "num_rows", "num_columns", "first_chunk")])


cdef struct Chunk:
    int64_t row_group
    int64_t column
    int64_t start               # of the ColumnChunk struct
    int64_t meta_start          # of its ColumnMetaData; -1 when it has none
    int64_t meta_end
    int64_t physical_type
    int64_t codec
    int64_t num_values
    int64_t uncompressed_size
    int64_t compressed_size
    int64_t data_page_offset
    int64_t dictionary_page_offset
    int64_t path_start          # value of path_in_schema: a list
    int64_t statistics_start    # value of statistics: a struct
    int64_t filter_offset
    int64_t filter_length
    int64_t filter_fields       # number of occurrences of fields 14 and 15: more than 2 are ambiguous
    int64_t offset_index_offset
    int64_t offset_index_length
    int64_t column_index_offset
    int64_t column_index_length
    int64_t encrypted           # 1 when crypto_metadata or encrypted_column_metadata is there
    int64_t external            # 1 when the data is in another file
    int64_t dictionary_only     # 1 when the footer proves that every value is in the dictionary
    int64_t bit_packed          # 1 when BIT_PACKED is among the encodings, as parquet-java lists it for levels


cdef struct RowGroup:
    int64_t start
    int64_t num_rows
    int64_t num_columns
    int64_t first_chunk


cdef struct Records:
    char* data
    Py_ssize_t count
    Py_ssize_t room


cdef void* _append(Records* records, Py_ssize_t size) except NULL nogil:
    cdef char* data
    cdef Py_ssize_t room
    if records.count == records.room:
        room = 2 * records.room + 64
        data = <char*>realloc(records.data, room * size)
        if data == NULL:
            with gil:
                raise MemoryError
        records.data = data
        records.room = room
    records.count += 1
    return records.data + (records.count - 1) * size


cdef object _to_array(const Records* records, dtype):
    raw = PyBytes_FromStringAndSize(records.data, records.count * dtype.itemsize)
    return np.frombuffer(raw, dtype=dtype)


cdef inline bint _is_int(int type) noexcept nogil:
    return type == I64 or type == I32 or type == I16


cdef int _check_elements(Cursor cursor, const Field* field, int type) except -1 nogil:
    """Fail if a list declares another type of its elements than `type`.

    Readers that are generated from the format's description ignore the declared type, and so find other fields after
    the list than readers that use it.
    """
    if field.type == LIST:
        cursor.need(1)
        if cursor.data[cursor.pos] >> 4 and cursor.data[cursor.pos] & 0x0F != type:
            cursor.fail_with("a list has elements of another type than its field asks for")
    return 0


cdef enum:
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    RLE_DICTIONARY = 8

    DATA_PAGE = 0
    INDEX_PAGE = 1
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3


cdef bint _prove_by_encodings(Cursor cursor, Chunk* chunk) except -1 nogil:
    """Read a chunk's list of encodings; return whether it proves that all data pages are dictionary-encoded.

    Only writers of the format's first version tell: they list PLAIN_DICTIONARY for the values and, where pages have plain
    values as well, PLAIN. Later ones list PLAIN for the dictionary itself (parquet-java: DictionaryFilter).
    """
    cdef int element_type = 0
    cdef uint64_t i, count = cursor.list_header(&element_type)
    cdef int64_t encoding
    cdef bint has_dictionary = False, has_others = False
    for i in range(count):
        encoding = cursor.integer()
        if encoding == PLAIN_DICTIONARY:
            has_dictionary = True
        elif encoding == BIT_PACKED:  # it is of levels, as RLE is
            chunk.bit_packed = 1
        elif encoding != RLE:
            has_others = True
    return has_dictionary and not has_others


cdef bint _prove_by_pages(Cursor cursor) except -1 nogil:
    """Read a chunk's list of PageEncodingStats; return whether it proves that all data pages are dictionary-encoded."""
    cdef int element_type = 0
    cdef uint64_t i, count = cursor.list_header(&element_type)
    cdef int64_t kind, encoding, num_pages
    cdef bint has_dictionary = False, has_others = False
    cdef Field field
    for i in range(count):
        kind = encoding = num_pages = -1
        field.id = 0
        while cursor.next_field(&field):
            if not 1 <= field.id <= 3 or not _is_int(field.type):
                cursor.skip(field.type, 4)
            elif field.id == 1:
                kind = cursor.integer()
            elif field.id == 2:
                encoding = cursor.integer()
            else:
                num_pages = cursor.integer()
        if num_pages < 0 or not DATA_PAGE <= kind <= DATA_PAGE_V2:
            has_others = True
        elif num_pages and (kind == DATA_PAGE or kind == DATA_PAGE_V2):
            if encoding == PLAIN_DICTIONARY or encoding == RLE_DICTIONARY:
                has_dictionary = True
            else:
                has_others = True
    return has_dictionary and not has_others


cdef int _index_meta(Cursor cursor, Chunk* chunk) except -1 nogil:
    cdef Field field
    cdef int64_t value
    cdef int by_encodings = -1, by_pages = -1
    field.id = 0
    chunk.meta_start = cursor.pos
    while cursor.next_field(&field):
        if field.id == 14 or field.id == 15:
            chunk.filter_fields += 1
            if not _is_int(field.type):
                chunk.filter_fields += 3  # of the wrong type: ambiguous like a duplicate
        if _is_int(field.type):
            value = cursor.integer()
            if field.id == 1:
                chunk.physical_type = value
            elif field.id == 4:
                chunk.codec = value
            elif field.id == 5:
                chunk.num_values = value
            elif field.id == 6:
                chunk.uncompressed_size = value
            elif field.id == 7:
                chunk.compressed_size = value
            elif field.id == 9:
                chunk.data_page_offset = value
            elif field.id == 11:
                chunk.dictionary_page_offset = value
            elif field.id == 14:
                # -1 means "none": other negative numbers must not be mistaken for it
                chunk.filter_offset = value if value != -1 else -2
            elif field.id == 15:
                chunk.filter_length = value if value != -1 else -2
            continue
        if field.id == 2:
            _check_elements(cursor, &field, I32)
            if field.type == LIST:
                by_encodings = _prove_by_encodings(cursor, chunk) if by_encodings < 0 else 0
                continue
        elif field.id == 8:
            _check_elements(cursor, &field, STRUCT)
        elif field.id == 13:
            _check_elements(cursor, &field, STRUCT)
            if field.type == LIST:
                by_pages = _prove_by_pages(cursor) if by_pages < 0 else 0
                continue
            by_pages = 0
        elif field.id == 3 and field.type == LIST:
            _check_elements(cursor, &field, BINARY)
            chunk.path_start = cursor.pos
        elif field.id == 12 and field.type == STRUCT:
            chunk.statistics_start = cursor.pos
        cursor.skip(field.type, 3)
    chunk.meta_end = cursor.pos
    chunk.dictionary_only = (by_encodings if by_pages < 0 else by_pages) == 1
    return 0


cdef int _index_chunk(Cursor cursor, Chunk* chunk) except -1 nogil:
    cdef Field field
    cdef int64_t value
    field.id = 0
    chunk.start = cursor.pos
    while cursor.next_field(&field):
        if field.id == 3 and field.type == STRUCT:
            if chunk.meta_start >= 0:
                cursor.fail_with("a column chunk has its metadata twice")  # which one counts, readers do not agree on
            _index_meta(cursor, chunk)
            continue
        if 4 <= field.id <= 7 and _is_int(field.type):
            value = cursor.integer()
            if field.id == 4:
                chunk.offset_index_offset = value
            elif field.id == 5:
                chunk.offset_index_length = value
            elif field.id == 6:
                chunk.column_index_offset = value
            else:
                chunk.column_index_length = value
            continue
        if field.id == 1:
            chunk.external = 1
        elif field.id == 8 or field.id == 9:
            chunk.encrypted = 1
        cursor.skip(field.type, 2)
    return 0


cdef int _index_row_group(Cursor cursor, int64_t number, Records* row_groups, Records* chunks) except -1 nogil:
    cdef RowGroup* row_group = <RowGroup*>_append(row_groups, sizeof(RowGroup))
    cdef Chunk* chunk
    cdef Chunk blank
    cdef Field field
    cdef uint64_t count, i
    cdef int element_type = 0
    cdef int64_t* words = <int64_t*>&blank
    for i in range(sizeof(Chunk) // 8):
        words[i] = -1
    blank.filter_fields = blank.encrypted = blank.external = blank.dictionary_only = blank.bit_packed = 0
    blank.row_group = number
    row_group.start = cursor.pos
    row_group.num_rows = -1
    row_group.num_columns = 0
    row_group.first_chunk = chunks.count
    field.id = 0
    while cursor.next_field(&field):
        if field.id == 1 and field.type == LIST:
            if row_group.num_columns:
                cursor.fail_with("a row group lists its columns twice")
            count = cursor.list_header(&element_type)
            if count and element_type != STRUCT:
                cursor.fail_with("column chunks are not structs")
            row_group.num_columns = count
            for i in range(count):
                chunk = <Chunk*>_append(chunks, sizeof(Chunk))
                chunk[0] = blank
                chunk.column = i
                cursor.chunk = i
                _index_chunk(cursor, chunk)
                cursor.chunk = -1
        elif field.id == 3 and _is_int(field.type):
            row_group.num_rows = cursor.integer()
        else:
            if field.id == 4:
                _check_elements(cursor, &field, STRUCT)
            cursor.skip(field.type, 2)
    return 0


cdef bint _is_typed(const Field* field) noexcept nogil:
    """Return whether a field of FileMetaData has the type for its number; fields that are not used may have any."""
    if field.id == 3:
        return _is_int(field.type)
    if field.id == 6:
        return field.type == BINARY
    return field.type == LIST or not (field.id == 2 or field.id == 4 or field.id == 5 or field.id == 7)


cdef enum:
    NUM_FIELDS = 10  # of FileMetaData, by number, those that the format defines


cdef struct Index:
    int64_t positions[NUM_FIELDS]  # of the values of the last field of each number; -1 for none
    int64_t ends[NUM_FIELDS]       # of these values
    int64_t num_rows
    int64_t end
    int64_t is_usual  # no field comes twice, and none is unknown


# One record per footer. The positions and ends are those of the fields' values, by number; -1 for none.
INDEX_DTYPE = np.dtype([
    ("positions", np.int64, NUM_FIELDS), ("ends", np.int64, NUM_FIELDS), ("num_rows", np.int64), ("end", np.int64),
    ("is_usual", np.int64),
])


cdef int _index_footer(Cursor cursor, Index* index, Records* row_groups, Records* chunks) except -1 nogil:
    cdef Field field
    cdef uint64_t count, i
    cdef int element_type = 0, number
    cdef bint is_known
    for number in range(NUM_FIELDS):
        index.positions[number] = index.ends[number] = -1
    index.num_rows = index.end = 0
    index.is_usual = True
    field.id = 0
    while cursor.next_field(&field):
        if field.id == 4 and index.positions[4] >= 0:
            cursor.fail_with("the row groups are listed twice")
        if not _is_typed(&field):
            index.is_usual = False
            cursor.skip(field.type, 1)  # every reader ignores it
            continue
        is_known = 0 < field.id < NUM_FIELDS
        if not is_known or index.positions[field.id] >= 0:
            index.is_usual = False
        if is_known:
            index.positions[field.id] = cursor.pos
        if field.id == 4:
            count = cursor.list_header(&element_type)
            if count and element_type != STRUCT:
                cursor.fail_with("row groups are not structs")
            for i in range(count):
                cursor.row_group = i
                _index_row_group(cursor, i, row_groups, chunks)
            cursor.row_group = -1
        elif field.id == 3:
            index.num_rows = cursor.integer()
        else:
            if field.id == 2 or field.id == 5:
                _check_elements(cursor, &field, STRUCT)
            cursor.skip(field.type, 1)
        if is_known:
            index.ends[field.id] = cursor.pos
    index.end = cursor.pos
    return 0


cdef dict _describe(const Index* index):
    cdef int i
    positions = {i: index.positions[i] for i in range(NUM_FIELDS) if index.positions[i] >= 0}
    if index.positions[3] >= 0:
        positions["num_rows"] = index.num_rows
    positions["end"] = index.end
    return positions


def index_footer(const uint8_t[::1] footer not None):
    """Walk a footer once and record the positions of its parts.

    Returns
    -------
    (file, row_groups, chunks) : dict of field id -> position of the value (plus "end", "num_rows"), an array of
        ROW_GROUP_DTYPE, an array of CHUNK_DTYPE in file order.

    Raises
    ------
    MalformedFooterError
    """
    cdef Cursor cursor = Cursor(footer)
    cdef Records row_groups
    cdef Records chunks
    cdef Index index
    row_groups.data = chunks.data = NULL
    row_groups.count = row_groups.room = chunks.count = chunks.room = 0
    try:
        with nogil:
            _index_footer(cursor, &index, &row_groups, &chunks)
        return _describe(&index), _to_array(&row_groups, ROW_GROUP_DTYPE), _to_array(&chunks, CHUNK_DTYPE)
    finally:
        free(row_groups.data)
        free(chunks.data)


cdef struct Span:
    int64_t start
    int64_t end
    int64_t number     # spans that begin at one position stay in their order
    bint is_filter


cdef int _compare_spans(const void* one, const void* other) noexcept nogil:
    cdef const Span* a = <const Span*>one
    cdef const Span* b = <const Span*>other
    if a.start != b.start:
        return -1 if a.start < b.start else 1
    return -1 if a.number < b.number else 1


cdef inline Py_ssize_t _put_span(Span* spans, Py_ssize_t count, int64_t start, int64_t size) noexcept nogil:
    if start <= 0 or size <= 0:
        return count
    # As int64 arrays add up: nothing is apart from a span of which the end lies before its start.
    spans[count] = Span(start, <int64_t>(<uint64_t>start + <uint64_t>size), count, False)
    return count + 1


cdef bint _are_filters_apart(const Chunk* chunks, Py_ssize_t count, int64_t footer_start) except -1 nogil:
    """Return what `Footer.filters_apart` does."""
    cdef Py_ssize_t i, num_spans = 0
    cdef int64_t reach = 0, filter_reach = 0, first
    cdef bint apart = True
    cdef const Chunk* chunk
    cdef Span* spans
    for i in range(count):
        chunk = chunks + i
        if chunk.filter_offset == -1 and chunk.filter_fields <= 0:
            continue
        num_spans += 1
        if chunk.filter_length <= 0 or chunk.filter_fields > 2 or chunk.filter_offset < 4:
            return False
        if chunk.external or chunk.encrypted or chunk.filter_length > footer_start - chunk.filter_offset:
            return False
    if not num_spans:
        return True
    spans = <Span*>malloc(4 * count * sizeof(Span))
    if spans == NULL:
        with gil:
            raise MemoryError
    num_spans = 0
    for i in range(count):
        chunk = chunks + i
        if chunk.filter_offset != -1:
            spans[num_spans] = Span(
                chunk.filter_offset, chunk.filter_offset + chunk.filter_length, num_spans, True
            )
            num_spans += 1
    for i in range(count):
        chunk = chunks + i
        first = chunk.data_page_offset
        if chunk.dictionary_page_offset > 0:
            first = min(first, chunk.dictionary_page_offset)
        num_spans = _put_span(spans, num_spans, first, chunk.compressed_size)
        num_spans = _put_span(spans, num_spans, chunk.offset_index_offset, chunk.offset_index_length)
        num_spans = _put_span(spans, num_spans, chunk.column_index_offset, chunk.column_index_length)
    qsort(spans, num_spans, sizeof(Span), _compare_spans)
    for i in range(num_spans):
        if i and spans[i].start < (reach if spans[i].is_filter else filter_reach):
            apart = False
            break
        reach = max(reach, spans[i].end) if i else spans[i].end
        if spans[i].is_filter:
            filter_reach = max(filter_reach, spans[i].end)
    free(spans)
    return apart


cdef struct Bytes:
    const uint8_t* data
    Py_ssize_t length


cdef struct Walk:
    Bytes* footers
    Index* indexes
    int64_t* first_row_group
    int64_t* first_chunk
    const int64_t* starts
    uint8_t* apart
    Py_ssize_t next


cdef int _index_some(
    Cursor cursor, Walk* walk, Py_ssize_t count, Records* row_groups, Records* chunks
) except -1 nogil:
    """Index footers from `walk.next` on, which is left at the one that fails."""
    cdef Py_ssize_t i
    while walk.next < count:
        i = walk.next
        walk.first_row_group[i], walk.first_chunk[i] = row_groups.count, chunks.count
        cursor.data, cursor.pos, cursor.end = walk.footers[i].data, 0, walk.footers[i].length
        cursor.row_group = cursor.chunk = -1
        _index_footer(cursor, walk.indexes + i, row_groups, chunks)
        walk.apart[i] = _are_filters_apart(
            <const Chunk*>chunks.data + walk.first_chunk[i], chunks.count - walk.first_chunk[i], walk.starts[i]
        )
        walk.next += 1
    return 0


cdef enum:
    MAX_SCHEMAS = 16  # that a footer is compared with


cdef bint _have_same_field(const Walk* walk, Py_ssize_t one, Py_ssize_t other, int number) noexcept nogil:
    cdef int64_t start = walk.indexes[one].positions[number], other_start = walk.indexes[other].positions[number]
    cdef int64_t length = walk.indexes[one].ends[number] - start
    if length != walk.indexes[other].ends[number] - other_start:
        return False
    return start < 0 or memcmp(walk.footers[one].data + start, walk.footers[other].data + other_start, length) == 0


cdef bint _have_same_schema(const Walk* walk, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
    return _have_same_field(walk, one, other, 2) and _have_same_field(walk, one, other, 7)


def index_footers(list footers not None, const int64_t[::1] starts not None):
    """Walk many footers, without the interpreter.

    Parameters
    ----------
    footers : their bytes.
    starts : their offsets in their files.

    Returns
    -------
    (files, schemas, row_groups, first_row_group, chunks, first_chunk, apart) : an array of INDEX_DTYPE, in which a
        footer that is malformed or has a field twice or one that is unknown is not usual; for each footer the number of
        the first usual one with the same schema and orders of columns, or its own; the records of all row groups and
        column chunks, footer i's from first_row_group[i] to first_row_group[i + 1] and alike; and for each footer what
        `Footer.filters_apart` is.
    """
    cdef Py_ssize_t count = len(footers), i
    cdef Cursor cursor = Cursor(b"")
    cdef Records row_groups, chunks
    cdef Walk walk
    if starts.shape[0] != count:
        raise ValueError("there must be a start for each footer")
    for data in footers:
        if not isinstance(data, bytes):
            raise ValueError("footers are bytes")
    row_groups.data = chunks.data = NULL
    row_groups.count = row_groups.room = chunks.count = chunks.room = 0
    first_row_group, first_chunk = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    are_apart = np.zeros(count + 1, np.uint8)
    cdef int64_t[::1] row_group_view = first_row_group, chunk_view = first_chunk
    cdef uint8_t[::1] apart_view = are_apart
    cdef int64_t no_start = 0
    walk.first_row_group, walk.first_chunk, walk.apart = &row_group_view[0], &chunk_view[0], &apart_view[0]
    walk.starts = &starts[0] if count else &no_start
    walk.next = 0
    walk.footers = <Bytes*>malloc(max(1, count) * sizeof(Bytes))
    walk.indexes = <Index*>malloc(max(1, count) * sizeof(Index))
    schemas = np.arange(count)
    cdef int64_t[::1] schema_view = schemas
    cdef Py_ssize_t others[MAX_SCHEMAS]
    cdef int num_others = 0, which
    try:
        if walk.footers == NULL or walk.indexes == NULL:
            raise MemoryError
        for i in range(count):
            walk.footers[i].data = <const uint8_t*>PyBytes_AS_STRING(footers[i])
            walk.footers[i].length = len(footers[i])
        while walk.next < count:
            try:
                with nogil:
                    _index_some(cursor, &walk, count, &row_groups, &chunks)
            except MalformedFooterError:
                i = walk.next
                row_groups.count, chunks.count = walk.first_row_group[i], walk.first_chunk[i]
                walk.indexes[i].is_usual = False
                walk.next += 1
        walk.first_row_group[count], walk.first_chunk[count] = row_groups.count, chunks.count
        for i in range(count):
            if not walk.indexes[i].is_usual:
                continue
            for which in range(num_others):
                if _have_same_schema(&walk, i, others[which]):
                    schema_view[i] = others[which]
                    break
            else:
                if num_others < MAX_SCHEMAS:
                    others[num_others] = i
                    num_others += 1
        raw = PyBytes_FromStringAndSize(<const char*>walk.indexes, count * sizeof(Index))
        return (
            np.frombuffer(raw, INDEX_DTYPE), schemas, _to_array(&row_groups, ROW_GROUP_DTYPE), first_row_group,
            _to_array(&chunks, CHUNK_DTYPE),
            first_chunk, are_apart[:count].view(np.bool_)
        )
    finally:
        free(row_groups.data)
        free(chunks.data)
        free(walk.footers)
        free(walk.indexes)


# One record per column chunk: its statistics. Bounds are in the order of `BOUNDS`: their positions in the footer, -1 for
# none, their lengths, and the number that their first eight bytes are (little-endian). `max_is_exact`: 1 for true, -1 for
# false, 0 where it is absent.
BOUNDS = ("min_value", "max_value", "legacy_min", "legacy_max")
STATISTICS_DTYPE = np.dtype([
    ("is_usual", np.int64), ("has_null_count", np.int64), ("null_count", np.int64), ("nan_count", np.int64),
    ("max_is_exact", np.int64),
    ("start", np.int64, 4), ("length", np.int64, 4), ("number", np.uint64, 4),
])


cdef struct ChunkStatistics:
    int64_t is_usual
    int64_t has_null_count
    int64_t null_count
    int64_t nan_count       # -1 for none
    int64_t max_is_exact
    int64_t start[4]
    int64_t length[4]
    uint64_t number[4]


cdef int _read_statistics(Cursor cursor, ChunkStatistics* statistics) except -1 nogil:
    """Read a Statistics struct; one with a field twice or of another type than its number's is not usual."""
    cdef Field field
    cdef uint64_t length
    cdef int which, i
    field.id = 0
    while cursor.next_field(&field):
        if field.id == 3:
            if statistics.has_null_count or not _is_int(field.type):
                statistics.is_usual = 0
                return 0
            statistics.null_count = cursor.integer()
            statistics.has_null_count = 1
            continue
        if field.id == 9:
            if statistics.nan_count != -1 or not _is_int(field.type):
                statistics.is_usual = 0
                return 0
            statistics.nan_count = cursor.integer()
            continue
        if field.id == 7 and (field.type == TRUE or field.type == FALSE):
            statistics.max_is_exact = 1 if field.type == TRUE else -1
            continue
        which = 0 if field.id == 6 else 1 if field.id == 5 else 2 if field.id == 2 else 3 if field.id == 1 else -1
        if which < 0:
            cursor.skip(field.type, 1)
            continue
        if field.type != BINARY or statistics.start[which] >= 0:
            statistics.is_usual = 0
            return 0
        length = cursor.varint()
        cursor.need(length)
        statistics.start[which], statistics.length[which] = cursor.pos, length
        for i in range(<int>min(<int64_t>length, 8)):
            statistics.number[which] |= <uint64_t>cursor.data[cursor.pos + i] << (8 * i)
        cursor.pos += length
    return 0


cdef bint _has_path(const uint8_t* footer, Py_ssize_t size, int64_t start, bytes encoded_path) noexcept:
    """Return whether the path at a position, -1 for none, is encoded as expected."""
    cdef Py_ssize_t length = len(encoded_path)
    if start < 0:
        return True
    return start <= size and length <= size - start and memcmp(footer + start, <const char*>encoded_path, length) == 0


def read_statistics(
    list footers not None, const int64_t[::1] which not None, const int64_t[::1] statistics not None,
    const int64_t[::1] paths not None, bytes encoded_path not None
):
    """Read the statistics of one column's chunks in many footers.

    Parameters
    ----------
    footers : their bytes.
    which : for each chunk, the number of its footer.
    statistics, paths : positions of its statistics and of its path, as in CHUNK_DTYPE; -1 for none.
    encoded_path : what a path has to be.

    Returns
    -------
    An array of STATISTICS_DTYPE. Chunks with another path are not usual.
    """
    cdef Py_ssize_t i
    cdef int j
    cdef bytes data
    cdef Cursor cursor = Cursor(b"")
    cdef ChunkStatistics* record
    if not which.shape[0] == statistics.shape[0] == paths.shape[0]:
        raise ValueError("there must be a footer, statistics and a path for each chunk")
    out = np.zeros(which.shape[0], STATISTICS_DTYPE)
    cdef uint8_t[::1] raw = out.view(np.uint8)
    for i in range(which.shape[0]):
        if not 0 <= which[i] < len(footers):
            raise ValueError(f"there is no footer {which[i]}")
        data = footers[which[i]]
        record = <ChunkStatistics*>&raw[i * sizeof(ChunkStatistics)]
        for j in range(4):
            record.start[j] = -1
        record.is_usual, record.nan_count = 1, -1
        cursor.data, cursor.end = <const uint8_t*>PyBytes_AS_STRING(data), len(data)
        if not _has_path(cursor.data, cursor.end, paths[i], encoded_path):
            record.is_usual = 0
        elif statistics[i] > cursor.end:
            record.is_usual = 0
        elif statistics[i] >= 0:
            cursor.pos = statistics[i]
            try:
                _read_statistics(cursor, record)
            except MalformedFooterError:
                record.is_usual = 0
    return out


def have_path(
    list footers not None, const int64_t[::1] which not None, const int64_t[::1] paths not None, bytes encoded_path not None
):
    """Return whether column chunks name the same column, as it is usually encoded, or none.

    Parameters
    ----------
    footers, which, paths, encoded_path : as for `read_statistics`.
    """
    cdef Py_ssize_t i
    cdef bytes data
    if which.shape[0] != paths.shape[0]:
        raise ValueError("there must be a footer and a path for each chunk")
    for i in range(which.shape[0]):
        if not 0 <= which[i] < len(footers):
            raise ValueError(f"there is no footer {which[i]}")
        data = footers[which[i]]
        if not _has_path(<const uint8_t*>PyBytes_AS_STRING(data), len(data), paths[i], encoded_path):
            return False
    return True


def read_value(const uint8_t[::1] footer not None, Py_ssize_t start, int type):
    """Read a value of a given type at a position that `index_footer` recorded."""
    return Cursor(footer, start).value(type, 1)


cdef int _splice_meta(Cursor cursor, bytearray out, int64_t offset, int64_t length) except -1:
    """Copy a ColumnMetaData from the cursor to `out` with fields 14 and 15 replaced (omitted when `offset` < 0).

    Every other field keeps its bytes. Only a header that encodes its id as the difference to a preceding field that has
    changed is rewritten, with the same id.
    """
    cdef Field field
    cdef int64_t last_read = 0      # id before this field, as read
    cdef int64_t last_written = 0   # id before this field, as written
    cdef Py_ssize_t run = cursor.pos   # start of what is to be copied as it is
    cdef bint pending = offset >= 0
    cdef bint more = True
    field.id = 0
    while more:
        last_read = field.id
        more = cursor.next_field(&field)
        if more:
            cursor.skip(field.type, 3)
        if pending and (not more or field.id > 15):
            _put_bytes(out, cursor.data + run, field.start - run)
            run = field.start
            _put_field(out, last_written, 14, I64)
            _put_integer(out, offset)
            _put_field(out, 14, 15, I32)
            _put_integer(out, length)
            last_written = 15
            pending = False
        if not more:
            break
        if field.id == 14 or field.id == 15:
            _put_bytes(out, cursor.data + run, field.start - run)
            run = cursor.pos
            continue
        if last_written != last_read and not field.long_form:
            _put_bytes(out, cursor.data + run, field.start - run)
            _put_field(out, last_written, field.id, field.type)
            run = field.value
        last_written = field.id
    _put_bytes(out, cursor.data + run, cursor.pos - run)
    return 0


def splice_filters(const uint8_t[::1] footer not None, const int64_t[::1] meta_starts not None,
                   const int64_t[::1] meta_ends not None, const int64_t[::1] offsets not None,
                   const int64_t[::1] lengths not None):
    """Return a footer with other filter locations in some of its column chunks, and all else byte for byte.

    `meta_starts` and `meta_ends` are ascending spans of ColumnMetaData structs; a negative offset removes the filter.
    """
    cdef bytearray out = bytearray()
    cdef Cursor cursor = Cursor(footer)
    cdef Py_ssize_t i
    cdef Py_ssize_t copied = 0
    for i in range(meta_starts.shape[0]):
        if meta_starts[i] < copied or meta_ends[i] < meta_starts[i] or meta_ends[i] > cursor.end:
            raise ValueError("spans must ascend inside the footer")
        _put_bytes(out, cursor.data + copied, meta_starts[i] - copied)
        cursor.pos = meta_starts[i]
        _splice_meta(cursor, out, offsets[i], lengths[i])
        if cursor.pos != meta_ends[i]:
            raise ValueError("a span is not that of a struct")
        copied = meta_ends[i]
    _put_bytes(out, cursor.data + copied, cursor.end - copied)
    return bytes(out)


# ---------------------------------------------------------------------------------------------------- pages

def read_page_locations(const uint8_t[::1] index not None, uint64_t limit):
    """Read the PageLocations of an OffsetIndex, as an (n, 3) int64 array of offset, size, first row.

    Raises
    ------
    MalformedFooterError
        The bytes are not an OffsetIndex, there are more than `limit`, or one lacks a field.
    """
    cdef Cursor cursor = Cursor(index)
    cdef Field field, inner
    cdef uint64_t count, i
    cdef int element_type = 0
    cdef int seen
    cdef int64_t[:, ::1] out
    locations = None
    field.id = 0
    while cursor.next_field(&field):
        if field.id != 1 or field.type != LIST or locations is not None:
            cursor.skip(field.type, 1)
            continue
        count = cursor.list_header(&element_type)
        if count > limit or (count and element_type != STRUCT):
            cursor.fail(f"{count} elements of type {element_type} are not a list of pages")
        locations = np.zeros((count, 3), np.int64)
        out = locations
        for i in range(count):
            inner.id = 0
            seen = 0
            while cursor.next_field(&inner):
                if 1 <= inner.id <= 3 and _is_int(inner.type):
                    out[i, inner.id - 1] = cursor.integer()
                    seen |= 1 << inner.id
                else:
                    cursor.skip(inner.type, 3)
            if seen != 14:
                cursor.fail("a page lacks its offset, its size or its first row")
    if locations is None:
        cursor.fail("the list of pages is missing")
    return locations


cdef int read_page(Cursor cursor, Page* page) except -1 nogil:
    """Read a page header, and check that its kind is described by it."""
    cdef Field field, inner
    cdef int64_t described = -1, value
    cdef Py_ssize_t start = cursor.pos
    page.kind = page.size = page.num_values = page.encoding = page.unpacked = page.level_encoding = -1
    page.repeat_bytes = page.level_bytes = page.repeat_encoding = page.num_nulls = page.num_rows = page.checksum = -1
    page.compressed = True
    field.id = 0
    while cursor.next_field(&field):
        if 1 <= field.id <= 4 and field.type == I32:  # Thrift's generated readers skip fields of another type, too
            value = cursor.integer()
            if field.id == 1:
                page.kind = value
            elif field.id == 2:
                page.unpacked = value
            elif field.id == 3:
                page.size = value
            else:
                page.checksum = <uint32_t>value
        elif (field.id == 5 or field.id == 7 or field.id == 8) and field.type == STRUCT:
            if described >= 0:
                cursor.fail_with("a page is described twice")
            described = field.id
            inner.id = 0
            while cursor.next_field(&inner):
                if described == 8 and inner.id == 7 and (inner.type == TRUE or inner.type == FALSE):
                    page.compressed = inner.type == TRUE
                elif inner.type != I32:
                    cursor.skip(inner.type, 2)
                else:
                    value = cursor.integer()
                    if inner.id == 1:
                        page.num_values = value
                    elif inner.id == (4 if described == 8 else 2):
                        page.encoding = value
                    elif described == 5 and inner.id == 3:
                        page.level_encoding = value
                    elif described == 5 and inner.id == 4:
                        page.repeat_encoding = value
                    elif described == 8 and inner.id == 2:
                        page.num_nulls = value
                    elif described == 8 and inner.id == 3:
                        page.num_rows = value
                    elif described == 8 and inner.id == 5:
                        page.level_bytes = value
                    elif described == 8 and inner.id == 6:
                        page.repeat_bytes = value
        else:
            cursor.skip(field.type, 1)
    if not (page.kind == 0 and described == 5 or page.kind == 2 and described == 7
            or page.kind == 3 and described == 8):
        cursor.fail_with("pages of type {} do not exist", page.kind)
    page.header_bytes = cursor.pos - start
    return 0


def read_page_header_fields(const uint8_t[::1] data not None):
    """Read a page header, as a dict by the names in the C struct.

    Missing fields are -1.

    Raises
    ------
    MalformedFooterError
    """
    cdef Page page
    read_page(Cursor(data), &page)
    return page


cdef int describe_page(Cursor cursor, int64_t* row) except -1 nogil:
    """Read a page header as a row of the table that `index_pages` returns."""
    cdef Page page
    row[0] = cursor.pos
    read_page(cursor, &page)
    if page.size < 0 or page.num_values < 0:
        cursor.fail_with("a page does not end within its column chunk")
    row[1], row[2] = page.header_bytes, page.size
    row[3], row[4], row[5] = page.kind, page.num_values, page.encoding
    row[6], row[7], row[8] = page.unpacked, page.level_encoding, page.repeat_bytes
    row[9], row[10], row[11] = page.level_bytes, page.compressed, page.repeat_encoding
    row[12], row[13] = page.num_nulls, page.num_rows
    return 0


cdef int64_t* add_page(PageRows* pages, Py_ssize_t max_pages) except NULL nogil:
    """Return room for another row."""
    cdef int64_t* rows
    cdef Py_ssize_t room
    if pages.count >= max_pages:
        with gil:
            raise MalformedFooterError(f"metadata: there are more than {max_pages} pages")
    if pages.count == pages.room:
        room = 2 * pages.room + 8
        rows = <int64_t*>realloc(pages.rows, room * PAGE_FIELDS * sizeof(int64_t))
        if rows == NULL:
            with gil:
                raise MemoryError
        pages.rows, pages.room = rows, room
    pages.count += 1
    return pages.rows + (pages.count - 1) * PAGE_FIELDS


cdef int walk_window(
    Cursor cursor, PageRows* pages, Py_ssize_t max_pages, int64_t num_bytes, int64_t num_values
) except -1 nogil:
    """Read the headers of pages that begin in the cursor's bytes; see `index_window`."""
    cdef int64_t* row
    pages.count = 0
    while cursor.pos < cursor.end and num_bytes > 0 and num_values > 0 and pages.count < max_pages:
        row = add_page(pages, max_pages)
        describe_page(cursor, row)
        num_bytes = num_bytes - row[1] - row[2] if row[2] < num_bytes else 0
        if row[3] != 2:
            num_values = num_values - row[4] if row[4] < num_values else 0
        cursor.pos = cursor.pos + row[2] if row[2] < cursor.end - cursor.pos else cursor.end
    return 0


cdef int walk_pages(Cursor cursor, PageRows* pages, Py_ssize_t max_pages) except -1 nogil:
    """Read the headers of pages that follow one another up to the end of the cursor's bytes; see `index_pages`."""
    cdef Py_ssize_t i
    walk_window(cursor, pages, max_pages, INT64_MAX, INT64_MAX)
    if cursor.pos < cursor.end:
        cursor.fail_with("there are more than {} pages", max_pages)
    for i in range(1, pages.count):
        if pages.rows[i * PAGE_FIELDS + 3] == 2:
            cursor.fail_with("a dictionary page follows data pages")
    i = (pages.count - 1) * PAGE_FIELDS
    if pages.count and pages.rows[i + 2] > cursor.end - pages.rows[i] - pages.rows[i + 1]:
        cursor.fail_with("a page does not end within its column chunk")
    return 0


cdef object copy_rows(const PageRows* pages):
    raw = PyBytes_FromStringAndSize(<const char*>pages.rows, pages.count * PAGE_FIELDS * sizeof(int64_t))
    return np.frombuffer(raw, np.int64).reshape(-1, PAGE_FIELDS)


def index_pages(const uint8_t[::1] data not None, Py_ssize_t max_pages):
    """Read the headers of pages that follow one another and fill `data`.

    Parameters
    ----------
    max_pages : more are not read.

    Returns
    -------
    int64 array of shape (pages, 14): where the page starts in `data`, then `header_bytes` and the other fields of
    `read_page_header_fields` in this order: size, kind, num_values, encoding, unpacked, level_encoding, repeat_bytes,
    level_bytes, compressed, repeat_encoding, num_nulls, num_rows.

    Raises
    ------
    MalformedFooterError
        Something else than pages is there, a page does not end within `data`, a dictionary page is not the first, or
        there are too many.
    """
    cdef Cursor cursor = Cursor(data)
    cdef PageRows pages
    pages.rows = NULL
    pages.count = pages.room = 0
    try:
        walk_pages(cursor, &pages, max_pages)
        return copy_rows(&pages)
    finally:
        free(pages.rows)


def index_window(const uint8_t[::1] data not None, int64_t num_bytes, int64_t num_values, Py_ssize_t max_pages):
    """Read the headers of pages that follow one another from the beginning of `data`, which may end anywhere.

    Parameters
    ----------
    num_bytes, num_values : how many of its column chunk are left; pages after the last value are not read.
    max_pages : more are not read.

    Returns
    -------
    As of `index_pages`; the last page may have more bytes than `data`, or than its chunk.

    Raises
    ------
    MalformedFooterError
        There is no page at the beginning of `data`, or not its entire header. Behind the first page nothing is an error.
    """
    cdef Cursor cursor = Cursor(data)
    cdef PageRows pages
    pages.rows = NULL
    pages.count = pages.room = 0
    try:
        try:
            walk_window(cursor, &pages, max_pages, num_bytes, num_values)
        except MalformedFooterError:
            pages.count -= 1
            if pages.count < 1:
                raise
        return copy_rows(&pages)
    finally:
        free(pages.rows)


def pages_agree(
    const uint8_t[::1] heads not None, const int64_t[::1] lengths not None, const int64_t[::1] sizes not None,
    const int64_t[::1] counts not None
):
    """Return whether pages are data pages with the expected sizes (header included) and numbers of values.

    Parameters
    ----------
    heads, lengths : the first bytes of each page, at least its header, concatenated; and their lengths.
    sizes, counts : bytes and values of each page.
    """
    cdef Cursor cursor = Cursor(heads)
    cdef Py_ssize_t total = cursor.end, at = 0, i
    cdef Page page
    if not lengths.shape[0] == sizes.shape[0] == counts.shape[0]:
        raise ValueError("lengths, sizes and counts must be of one length")
    for i in range(lengths.shape[0]):
        if not 0 <= lengths[i] <= total - at:
            raise ValueError("the lengths exceed the bytes")
        cursor.pos, cursor.end = at, at + lengths[i]
        at += lengths[i]
        try:
            read_page(cursor, &page)
        except MalformedFooterError:
            return False
        if page.kind == 2 or page.num_values != counts[i] or page.size != sizes[i] - page.header_bytes:
            return False
        if page.num_values < 0 or page.size < 0:
            return False
    return True
