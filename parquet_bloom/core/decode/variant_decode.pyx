# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Loops over the rows of a Variant column: as JSON, or the values at a path, cast to a type."""

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

import numpy as np

from ...errors import MalformedVariantError, VariantCastError

from .variant_casts cimport Target, cast_spot
from .variant_cursor cimport (
    ARRAY,
    BAD_ARROW,
    BAD_DECIMAL,
    BAD_FIELD,
    BAD_METADATA,
    BAD_TEXT,
    BAD_TIME,
    BINARY,
    BOOLEAN,
    BOTH_SET,
    CAST_FAILS,
    CUT_OFF,
    DATE,
    DECIMAL,
    DOUBLE,
    FIELD_TWICE,
    FLOAT,
    INTEGER,
    MISSING,
    NEEDS_ZONE,
    NO_MEMORY,
    NO_METADATA,
    NONE,
    NOT_OBJECT,
    OBJECT,
    OVERLAPPING,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NANOS,
    TIMESTAMP_NTZ,
    TIMESTAMP_NTZ_NANOS,
    TOO_DEEP,
    TOO_LONG,
    UNKNOWN_TYPE,
    UNSORTED,
    UUID,
    VARIANT_NULL,
    Fault,
    Node,
    Row,
    Scalar,
    Spot,
    Strings,
    Text,
    find_element,
    find_field,
    get_string,
    is_utf8,
    is_valid,
    locate,
    open_row,
    read_scalar,
    set_null,
    write_json,
)

# What `typed_value` of a node can be, and what values can be cast to.
TYPES = {
    "missing": MISSING, "boolean": BOOLEAN, "integer": INTEGER, "float": FLOAT, "double": DOUBLE, "decimal": DECIMAL,
    "date": DATE, "time": TIME, "timestamp": TIMESTAMP, "timestamp_ntz": TIMESTAMP_NTZ,
    "timestamp_nanos": TIMESTAMP_NANOS, "timestamp_ntz_nanos": TIMESTAMP_NTZ_NANOS, "string": STRING, "binary": BINARY,
    "uuid": UUID, "object": OBJECT, "array": ARRAY,
}

cdef enum:
    BROKEN = 255

DAMAGED = BROKEN
"""What `VariantReader.list_types` has for a row that does not conform to the format."""

# Bytes that a `typed_value` of each type may take; 0 where it has ends, or bits.
cdef dict WIDTHS = {
    BOOLEAN: (0,), INTEGER: (1, 2, 4, 8), FLOAT: (4,), DOUBLE: (8,), DECIMAL: (4, 8, 16), DATE: (4,), TIME: (8,),
    TIMESTAMP: (8,), TIMESTAMP_NTZ: (8,), TIMESTAMP_NANOS: (8,), TIMESTAMP_NTZ_NANOS: (8,), STRING: (0,), BINARY: (0,),
    UUID: (16,), OBJECT: (0,), ARRAY: (0,),
}


cdef dict TEXTS = {
    NO_METADATA: "it has no metadata",
    BAD_METADATA: "its metadata is not a dictionary of version 1",
    CUT_OFF: "a value ends behind the bytes that there are",
    UNKNOWN_TYPE: "a value has a type that is not known",
    BAD_FIELD: "the number of a field is outside of the dictionary",
    UNSORTED: "the fields of an object are not in the order of their names, or one is there twice",
    OVERLAPPING: "the values of an object or array overlap",
    TOO_DEEP: "its values are nested too deeply",
    TOO_LONG: "its text would be far longer than its bytes",
    BAD_TEXT: "a string is not UTF-8",
    BAD_DECIMAL: "a decimal has more than 38 digits",
    BAD_TIME: "a time is not within a day",
    BOTH_SET: "value and typed_value are both set",
    NOT_OBJECT: "the value beside a shredded object is no object",
    FIELD_TWICE: "a shredded field is in the value beside it as well",
    BAD_ARROW: "the offsets of its Arrow array are not valid",
}


cdef struct Step:
    const char* name    # NULL: an element of an array
    int64_t size
    int64_t position
    int child           # the node that a shredded object has this field in, or -1


cdef char EMPTY = 0


cdef class GrownText:
    """Bytes that were appended, with the buffer protocol."""

    cdef Text text

    def __dealloc__(self):
        free(self.text.data)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.text.data if self.text.size else &EMPTY, self.text.size, True, flags)


cdef class VariantReader:
    """Reads the rows of a Variant column.

    Parameters
    ----------
    nodes : groups of `value` and `typed_value`, each a tuple (name, group, value, type, width, scale, typed, first
        child, number of children). The column's own is first; children come after their parents and beside each other,
        those of an object in the order of their names' UTF-16. `group`, `value` and `typed` are Arrow arrays, without
        parents' offsets: (validity, ends, data, offset, length), of buffers or None; None for a column that is not there.
    metadata : the same.
    column : name of the column, for errors.

    Raises
    ------
    ValueError
        The nodes are not as described, or a buffer is too short.
    """

    cdef Node* nodes
    cdef int num_nodes
    cdef Strings metadata
    cdef list held
    cdef object column

    def __cinit__(self, list nodes not None, metadata, column=None):
        cdef int i, child
        cdef Node* node
        cdef Strings group
        self.held = [nodes, metadata]
        self.column = column
        if not nodes or len(nodes) > 1 << 20:
            raise ValueError(f"a column of {len(nodes)} groups")
        self.nodes = <Node*>calloc(len(nodes), sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        self.num_nodes = len(nodes)
        for i in range(self.num_nodes):
            node = &self.nodes[i]
            name, whole, value, node.type, node.width, node.scale, typed, node.first_child, node.num_children = nodes[i]
            node.name, node.name_size = PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)
            take_array(whole, 0, False, &group)
            node.valid, node.first, node.length = group.valid, group.first, group.length
            if value is not None:
                take_array(value, 0, True, &node.value)
                if node.value.length != node.length:
                    raise ValueError("the value of a group has another length")
            if (node.type != MISSING) != (typed is not None) or node.type not in TYPES.values():
                raise ValueError(f"no such type: {node.type}")
            if typed is not None:
                if node.width not in WIDTHS[node.type]:
                    raise ValueError(f"no such width: {node.width}")
                take_array(typed, -1 if node.type == BOOLEAN else node.width, node.type in (STRING, BINARY, ARRAY), &node.typed)
                if node.typed.length != node.length:
                    raise ValueError("the typed_value of a group has another length")
            if node.num_children < 0 or node.num_children and (
                node.first_child <= i or node.first_child > self.num_nodes - node.num_children
            ):
                raise ValueError("no such children")
            if node.type != OBJECT and node.num_children != (node.type == ARRAY):
                raise ValueError("no such children")
        for i in range(self.num_nodes):
            node = &self.nodes[i]
            if node.type == OBJECT:
                for child in range(node.first_child, node.first_child + node.num_children):
                    if self.nodes[child].length != node.length:
                        raise ValueError("a field has another length than its object")
        self.metadata.exists = False
        if metadata is not None:
            take_array(metadata, 0, True, &self.metadata)
            if self.metadata.length != self.nodes[0].length:
                raise ValueError("the metadata has another length")

    def __dealloc__(self):
        free(self.nodes)

    cdef Fault begin(self, Row* row, int64_t index) noexcept nogil:
        """Open the metadata of a row that is not null."""
        cdef const uint8_t* data
        cdef int64_t size
        cdef Fault fault
        row.nodes = self.nodes
        if not self.metadata.exists:
            return open_row(row, NULL, 0)
        if not is_valid(self.metadata.valid, self.metadata.first + index):
            return NO_METADATA
        fault = get_string(&self.metadata, index, &data, &size)
        return fault if fault else open_row(row, data, size)

    cdef Fault find(self, Row* row, int64_t index, const Step* steps, int count, Spot* spot) noexcept nogil:
        """Begin a row that is not null, and find the value at a path."""
        cdef Spot parent
        cdef int i
        cdef Fault fault = self.begin(row, index)
        if not fault:
            fault = locate(row, 0, index, spot)
        if not fault and spot.data == NULL and spot.node < 0:
            set_null(spot)
        for i in range(count):
            if fault or spot.data == NULL and spot.node < 0:
                return fault
            parent = spot[0]
            if steps[i].name != NULL:
                fault = find_field(row, &parent, steps[i].name, steps[i].size, steps[i].child, spot)
            else:
                fault = find_element(row, &parent, steps[i].position, spot)
        return fault

    cdef Step* plan(self, list path) except NULL:
        """Plan the way to a path: where it leads through shredded objects."""
        cdef Step* steps = <Step*>calloc(len(path) + 1, sizeof(Step))
        cdef int node = 0, child, i
        cdef Node* group
        if steps == NULL:
            raise MemoryError
        for i, step in enumerate(path):
            steps[i].child = -1
            group = &self.nodes[node] if node >= 0 else NULL
            node = -1
            if isinstance(step, bytes):
                steps[i].name, steps[i].size = PyBytes_AS_STRING(step), PyBytes_GET_SIZE(step)
                if group != NULL and group.type == OBJECT:
                    for child in range(group.first_child, group.first_child + group.num_children):
                        if steps[i].size == self.nodes[child].name_size and (
                            memcmp(steps[i].name, self.nodes[child].name, steps[i].size) == 0
                        ):
                            node = steps[i].child = child
            else:
                steps[i].position = step
                if group != NULL and group.type == ARRAY:
                    node = group.first_child
        return steps

    def to_json(self, list path, int64_t first_row=0):
        """Return the values at a path as JSON, of the whole column for an empty path.

        Parameters
        ----------
        path : names of fields (bytes) and positions.
        first_row : number of the first row, for errors.

        Returns
        -------
        validity (a bit for each row), ends (int64, 0 in front) and bytes.
        """
        cdef int64_t length = self.nodes[0].length, i = 0
        cdef GrownText out = GrownText()
        ends = np.zeros(length + 1, np.int64)
        valid = np.zeros((length + 7) // 8, np.uint8)
        cdef int64_t[::1] ends_view = ends
        cdef uint8_t[::1] valid_view = valid
        cdef Row row
        cdef Spot spot
        cdef Fault fault = NONE
        cdef int count = len(path)
        cdef Step* steps = self.plan(path)
        row.without_zone = False
        with nogil:
            for i in range(length):
                if is_valid(self.nodes[0].valid, self.nodes[0].first + i):
                    fault = self.find(&row, i, steps, count, &spot)
                    if not fault and (spot.data != NULL or spot.node >= 0):
                        fault = write_json(&row, &spot, &out.text, 0)
                        valid_view[i >> 3] |= 1 << (i & 7)
                    if fault:
                        break
                ends_view[i + 1] = out.text.size
        free(steps)
        if fault:
            self.fail(fault, first_row + i)
        return valid, ends, out

    def extract(self, list path, tuple target, bint try_cast, int64_t first_row=0):
        """Return the values at a path, cast to a type.

        Parameters
        ----------
        path : names of fields (bytes) and positions.
        target : the type, its bits if it is an integer, precision and scale, bytes of a value, and its name for errors.
        try_cast : a value that cannot be cast is null.
        first_row : number of the first row, for errors.

        Returns
        -------
        validity (a bit for each row), ends (int64, 0 in front; of strings and binaries only) and the values.
        """
        cdef int64_t length = self.nodes[0].length, i = 0
        cdef GrownText out = GrownText()
        cdef Target to
        to.type, to.bits, to.precision, to.scale, to.width, name = target
        if to.width < 0 or to.width > 16 or (to.width == 0) != (to.type in (STRING, BINARY)):
            raise ValueError(f"no such type: {target}")
        cdef bint is_text = to.width == 0, is_null = True
        ends = np.zeros(length + 1 if is_text else 0, np.int64)
        valid = np.zeros((length + 7) // 8, np.uint8)
        values = np.zeros(max(length * to.width, 16), np.uint8)
        cdef int64_t[::1] ends_view = ends
        cdef uint8_t[::1] valid_view = valid, values_view = values
        cdef Row row
        cdef Spot spot
        cdef Fault fault = NONE
        cdef int count = len(path)
        cdef size_t size_before
        cdef Step* steps = self.plan(path)
        row.without_zone = True
        with nogil:
            for i in range(length):
                if is_valid(self.nodes[0].valid, self.nodes[0].first + i):
                    size_before = out.text.size
                    fault = self.find(&row, i, steps, count, &spot)
                    if not fault:
                        fault = cast_spot(&row, &spot, &to, &values_view[i * to.width], &out.text, &is_null)
                        if fault == CAST_FAILS and try_cast:
                            fault, is_null = NONE, True
                            out.text.size = size_before
                    if fault:
                        break
                    if not is_null:
                        valid_view[i >> 3] |= 1 << (i & 7)
                if is_text:
                    ends_view[i + 1] = out.text.size
        free(steps)
        if fault >= CAST_FAILS:
            self.fail_cast(fault, &row, &spot, first_row + i, name)
        elif fault:
            self.fail(fault, first_row + i)
        return valid, ends, out if is_text else values

    def list_types(self, list path):
        """Return the type of the value at a path for each row, of `TYPES`; `DAMAGED` where a row cannot be read.

        It is "missing" where nothing is at the path, or a Variant null.

        Parameters
        ----------
        path : names of fields (bytes) and positions.
        """
        cdef int64_t length = self.nodes[0].length, i = 0
        types = np.full(length, MISSING, np.uint8)
        cdef uint8_t[::1] types_view = types
        cdef Row row
        cdef Spot spot
        cdef Scalar scalar
        cdef Fault fault = NONE
        cdef int count = len(path)
        cdef Step* steps = self.plan(path)
        row.without_zone = True
        with nogil:
            for i in range(length):
                if is_valid(self.nodes[0].valid, self.nodes[0].first + i):
                    fault = self.find(&row, i, steps, count, &spot)
                    if not fault:
                        fault = read_scalar(&row, &spot, &scalar)
                    if not fault and scalar.type == STRING and not is_utf8(scalar.data, scalar.size):
                        fault = BAD_TEXT
                    if fault:
                        types_view[i] = BROKEN
                    elif scalar.type != VARIANT_NULL:
                        types_view[i] = scalar.type
        free(steps)
        return types

    cdef fail(self, Fault fault, int64_t row):
        if fault == NO_MEMORY:
            raise MemoryError
        raise MalformedVariantError(f"row {row}: the Variant is malformed: {TEXTS[fault]}", column=self.column)

    cdef fail_cast(self, Fault fault, Row* row, const Spot* spot, int64_t number, str name):
        cdef GrownText out = GrownText()
        row.without_zone = False
        cdef Fault other = write_json(row, spot, &out.text, 0)
        if other:
            self.fail(other, number)
        text = bytes(out).decode()
        text = text if len(text) <= 100 else f"{text[:97]}..."
        if fault == CAST_FAILS:
            problem = f"{text} cannot be cast to {name}; try_variant_get gives null for it"
        elif fault == NEEDS_ZONE:
            problem = f"what {text} is as {name} depends on a session's time zone or date; ask for another type"
        else:
            problem = f"there is no cast of {text} to {name}; ask for another type"
        raise VariantCastError(f"row {number}: {problem}", column=self.column)


cdef take_array(parts, int width, bint has_ends, Strings* out):
    """Take the buffers of an Arrow array, which are long enough; `width` of values in bytes, -1 of bits."""
    cdef int64_t needed, num_ends
    valid, ends, data, out.first, out.length, out.wide = parts
    if out.first < 0 or out.length < 0 or out.first > (<int64_t>1 << 48) or out.length > (<int64_t>1 << 48):
        raise ValueError("no such range of an array")
    needed = out.first + out.length
    out.exists = True
    out.valid = address(valid, (needed + 7) // 8, False)
    out.ends = out.data = NULL
    out.size = 0
    if has_ends:
        out.ends = address(ends, (needed + 1) * (8 if out.wide else 4), needed == 0)
        if out.ends == NULL:
            out.ends = <const uint8_t*>NO_ENDS
        out.data = address(data, 0, False)
        out.size = data.size if data is not None else 0
    elif width:
        out.data = address(data, (needed + 7) // 8 if width < 0 else needed * width, needed == 0)
        if out.data == NULL and needed:
            raise ValueError("an array has no values")


cdef int64_t[2] NO_ENDS = [0, 0]


cdef const uint8_t* address(buffer, int64_t needed, bint may_be_short) except? NULL:
    if buffer is None:
        return NULL
    if buffer.size < needed and not may_be_short:
        raise ValueError(f"a buffer of {buffer.size} bytes, not {needed}")
    cdef size_t start = buffer.address
    return <const uint8_t*>start
