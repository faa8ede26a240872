# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decode records of Avro files into columns; every length and count is checked against the bytes that there are.

Source: Avro specification 1.11, "Binary Encoding".
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy


cdef enum Type:
    NOTHING = 0
    BOOLEAN
    INTEGER
    FLOAT
    DOUBLE
    BYTES
    FIXED
    RECORD
    ARRAY

# What a node of each of Avro's types is. A map is an array of records, of a key and a value each.
TYPES = {
    "null": NOTHING, "boolean": BOOLEAN, "int": INTEGER, "long": INTEGER, "enum": INTEGER, "float": FLOAT,
    "double": DOUBLE, "bytes": BYTES, "string": BYTES, "fixed": FIXED, "record": RECORD, "array": ARRAY,
}


# What becomes of the values of a node: see `RecordDecoder`.
cdef enum:
    SKIPPED = 0
    DECODED
    STORED

cdef enum Fault:
    NONE = 0
    CUT_OFF
    LONG_NUMBER
    BAD_LENGTH
    BAD_COUNT
    BAD_BRANCH
    TOO_MUCH
    NO_MEMORY


cdef enum:
    DEEPEST = 64        # nodes below each other
    MOST_PER_BYTE = 64  # bytes of columns for a byte of records: some 20 are usual
    MOST_AT_LEAST = 1 << 20


cdef dict TEXTS = {
    CUT_OFF: "its records end too early",
    LONG_NUMBER: "a number does not end",
    BAD_LENGTH: "a length is negative, or behind the end",
    BAD_COUNT: "a count is more than the bytes can hold",
    BAD_BRANCH: "a union has no such branch",
    TOO_MUCH: "its records would take far more memory than bytes in the file",
}


cdef struct Vector:
    char* data
    size_t size
    size_t capacity


cdef struct Node:
    int type
    int null_branch     # of a union with null: 0 or 1, which branch null is; -1 for another type
    int keeps           # SKIPPED, DECODED or STORED
    int64_t size        # of a fixed
    int first           # the children are this node and `count - 1` after it
    int count
    int64_t smallest    # bytes that a value takes at least
    Vector valid        # a byte for each value
    Vector values
    Vector ends         # of bytes in `values`, or of items: int64, beginning with 0


cdef struct Cursor:
    const uint8_t* data
    int64_t at
    int64_t end
    uint64_t free       # bytes that columns may still take


cdef inline Fault push(Vector* vector, const void* data, size_t size, Cursor* cursor) noexcept nogil:
    cdef size_t capacity
    cdef char* grown
    if size > cursor.free:
        return TOO_MUCH
    cursor.free -= size
    if size > vector.capacity - vector.size:
        capacity = max(2 * vector.capacity, vector.size + size, <size_t>64)
        grown = <char*>realloc(vector.data, capacity)
        if grown == NULL:
            return NO_MEMORY
        vector.data, vector.capacity = grown, capacity
    if size:
        memcpy(vector.data + vector.size, data, size)
    vector.size += size
    return NONE


cdef inline int64_t last_end(const Vector* ends) noexcept nogil:
    cdef int64_t last
    memcpy(&last, ends.data + ends.size - sizeof(int64_t), sizeof(int64_t))
    return last


cdef inline Fault take_long(Cursor* cursor, int64_t* out) noexcept nogil:
    cdef uint64_t number = 0, byte
    cdef int shift = 0
    while True:
        if cursor.at >= cursor.end:
            return CUT_OFF
        byte = cursor.data[cursor.at]
        cursor.at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return LONG_NUMBER
    out[0] = <int64_t>((number >> 1) ^ (0 - (number & 1)))
    return NONE


cdef Fault push_bytes(Node* node, int64_t size, Cursor* cursor) noexcept nogil:
    """Take so many bytes, and keep them unless the node is skipped."""
    cdef Fault fault
    cdef int64_t end
    if size < 0 or size > cursor.end - cursor.at:
        return BAD_LENGTH
    if node.keeps:
        fault = push(&node.values, cursor.data + cursor.at, size, cursor)
        if fault:
            return fault
        end = <int64_t>node.values.size
        fault = push(&node.ends, &end, sizeof(end), cursor)
        if fault:
            return fault
    cursor.at += size
    return NONE


cdef Fault push_null(Node* nodes, int index, Cursor* cursor) noexcept nogil:
    cdef Node* node = &nodes[index]
    cdef int64_t number = 0
    cdef uint8_t no = 0
    cdef int i
    cdef Fault fault
    if not node.keeps:
        return NONE
    fault = push(&node.valid, &no, 1, cursor)
    if fault:
        return fault
    if node.keeps == STORED:
        number = last_end(&node.ends)
        return push(&node.ends, &number, sizeof(number), cursor)
    if node.type == RECORD:
        for i in range(node.count):
            fault = push_null(nodes, node.first + i, cursor)
            if fault:
                return fault
    elif node.type == BOOLEAN:
        return push(&node.values, &no, 1, cursor)
    elif node.type == FLOAT:
        return push(&node.values, &number, 4, cursor)
    elif node.type == INTEGER or node.type == DOUBLE:
        return push(&node.values, &number, 8, cursor)
    elif node.type != NOTHING:
        number = last_end(&node.ends)
        return push(&node.ends, &number, sizeof(number), cursor)
    return NONE


cdef Fault take_stored(Node* nodes, int index, Cursor* cursor) noexcept nogil:
    """Take a value, and keep its bytes, with the branch of its union."""
    cdef Node* node = &nodes[index]
    cdef int64_t begin = cursor.at, end
    cdef uint8_t yes = 1
    node.keeps = SKIPPED
    cdef Fault fault = take_value(nodes, index, cursor)
    node.keeps = STORED
    if not fault:
        end, cursor.at = cursor.at, begin
        fault = push_bytes(node, end - begin, cursor)
    return fault if fault else push(&node.valid, &yes, 1, cursor)


cdef Fault take_value(Node* nodes, int index, Cursor* cursor) noexcept nogil:
    cdef Node* node = &nodes[index]
    if node.keeps == STORED:
        return take_stored(nodes, index, cursor)
    cdef int64_t number
    cdef uint8_t yes = 1
    cdef int i
    cdef Fault fault
    if node.null_branch >= 0:
        fault = take_long(cursor, &number)
        if fault:
            return fault
        if number == node.null_branch:
            return push_null(nodes, index, cursor)
        if number != 1 - node.null_branch:
            return BAD_BRANCH
    if node.type == NOTHING:
        return push_null(nodes, index, cursor)
    if node.keeps:
        fault = push(&node.valid, &yes, 1, cursor)
        if fault:
            return fault
    if node.type == INTEGER:
        fault = take_long(cursor, &number)
        if fault or not node.keeps:
            return fault
        return push(&node.values, &number, sizeof(number), cursor)
    if node.type == BYTES:
        fault = take_long(cursor, &number)
        return fault if fault else push_bytes(node, number, cursor)
    if node.type == FIXED:
        return push_bytes(node, node.size, cursor)
    if node.type == RECORD:
        for i in range(node.count):
            fault = take_value(nodes, node.first + i, cursor)
            if fault:
                return fault
        return NONE
    if node.type == ARRAY:
        return take_items(nodes, node, cursor)
    number = 1 if node.type == BOOLEAN else 4 if node.type == FLOAT else 8
    if number > cursor.end - cursor.at:
        return CUT_OFF
    if node.keeps:
        fault = push(&node.values, cursor.data + cursor.at, number, cursor)
        if fault:
            return fault
    cursor.at += number
    return NONE


cdef Fault take_items(Node* nodes, Node* node, Cursor* cursor) noexcept nogil:
    cdef int64_t count = 0, size, total = 0, i
    cdef Fault fault
    while True:
        fault = take_long(cursor, &count)
        if fault:
            return fault
        if count == 0:
            break
        if count < 0:  # their size follows, for those who skip them
            if count < -INT64_MAX:
                return BAD_COUNT
            count = -count
            fault = take_long(cursor, &size)
            if fault:
                return fault
            if size < 0 or size > cursor.end - cursor.at:
                return BAD_LENGTH
        if count > cursor.end - cursor.at:
            return BAD_COUNT
        for i in range(count):
            fault = take_value(nodes, node.first, cursor)
            if fault:
                return fault
        total += count
    if not node.keeps:
        return NONE
    total += last_end(&node.ends)
    return push(&node.ends, &total, sizeof(total), cursor)


cdef class RecordDecoder:
    """Decodes records into columns.

    Parameters
    ----------
    nodes : the types of the records, a tuple (type, null branch, what is kept, size of a fixed, first child, number of
        children) for each. The records' own is first, a record; children come after their parents. Of the values 0
        keeps nothing, 1 keeps them in columns, and 2 the bytes that they are stored as; then nothing below is kept.

    Raises
    ------
    ValueError
        The nodes are not as described, or values of an array or the records may take no bytes: their number would not
        be limited by the bytes there are.
    """

    cdef Node* nodes
    cdef int num_nodes
    cdef uint64_t num_bytes_in, num_bytes_out
    cdef readonly int64_t num_records

    def __cinit__(self, list nodes not None):
        cdef int i, child
        cdef int64_t zero = 0
        cdef Node* node
        cdef Cursor cursor
        if not nodes or len(nodes) > 1 << 14:
            raise ValueError(f"a schema of {len(nodes)} types")
        self.nodes = <Node*>calloc(len(nodes), sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        self.num_nodes = len(nodes)
        cursor.free = self.num_nodes * sizeof(int64_t)
        depths = [0] * len(nodes)
        for i in range(self.num_nodes):
            node = &self.nodes[i]
            node.type, node.null_branch, node.keeps, node.size, node.first, node.count = nodes[i]
            if not SKIPPED <= node.keeps <= STORED or not NOTHING <= node.type <= ARRAY:
                raise ValueError(f"no such type: {nodes[i]}")
            if not -1 <= node.null_branch <= 1 or node.size < 0:
                raise ValueError(f"no such type: {nodes[i]}")
            if node.count < 0 or node.count and (node.first <= i or node.first > self.num_nodes - node.count):
                raise ValueError(f"no such children: {nodes[i]}")
            if (node.type != RECORD and node.count != (node.type == ARRAY)) or depths[i] >= DEEPEST:
                raise ValueError(f"too many types below another: {nodes[i]}")
            for child in range(node.first, node.first + node.count):
                depths[child] = depths[i] + 1
                if node.keeps == STORED and nodes[child][2]:
                    raise ValueError(f"kept twice: {nodes[child]}")
            if (node.keeps == STORED or node.type in (BYTES, FIXED, ARRAY)) and push(&node.ends, &zero, sizeof(zero), &cursor):
                raise MemoryError
        if self.nodes[0].type != RECORD or self.nodes[0].null_branch >= 0:
            raise ValueError("the schema is not one of records")
        for i in reversed(range(self.num_nodes)):
            node = &self.nodes[i]
            node.smallest = node.size if node.type == FIXED else 0 if node.type in (NOTHING, RECORD) else 1
            for child in range(node.first, node.first + node.count):
                if node.type == RECORD:
                    node.smallest = min(node.smallest + self.nodes[child].smallest, INT64_MAX // 2)
                elif self.nodes[child].smallest == 0:
                    raise ValueError("items of an array take no bytes")
            if node.null_branch >= 0:
                node.smallest = 1
        if self.nodes[0].smallest == 0:
            raise ValueError("its records take no bytes")

    def __dealloc__(self):
        cdef int i
        if self.nodes != NULL:
            for i in range(self.num_nodes):
                free(self.nodes[i].valid.data)
                free(self.nodes[i].values.data)
                free(self.nodes[i].ends.data)
            free(self.nodes)

    def decode(self, bytes data not None, int64_t begin, int64_t end, int64_t count):
        """Decode some records, and return where they end.

        Parameters
        ----------
        data, begin, end : the bytes, and which of them to take.
        count : number of records.

        Raises
        ------
        ValueError
            The bytes do not hold so many records; the columns are of no use any more.
        """
        cdef Cursor cursor
        cdef Fault fault = NONE
        cdef int64_t i
        if begin < 0 or end < begin or end > PyBytes_GET_SIZE(data):
            raise ValueError(f"no such bytes: {begin} to {end}")
        if count < 0 or count > end - begin:
            raise ValueError(TEXTS[BAD_COUNT])
        cursor.data, cursor.at, cursor.end = <const uint8_t*>PyBytes_AS_STRING(data), begin, end
        self.num_bytes_in += end - begin
        cursor.free = MOST_AT_LEAST + MOST_PER_BYTE * self.num_bytes_in - self.num_bytes_out
        self.num_bytes_out += cursor.free
        with nogil:
            for i in range(count):
                fault = take_value(self.nodes, 0, &cursor)
                if fault:
                    break
        self.num_bytes_out -= cursor.free
        if fault == NO_MEMORY:
            raise MemoryError
        if fault:
            raise ValueError(TEXTS[fault])
        self.num_records += count
        return cursor.at

    def column(self, int node):
        """Return validity (a byte for each value), values and ends of a node, in native byte order.

        Of what is kept as stored the values are bytes.

        Ends are int64, 0 in front, of the values of bytes in all values, or of the items of arrays in all items.
        """
        if node < 0 or node >= self.num_nodes:
            raise ValueError(f"no such type: {node}")
        return copy(&self.nodes[node].valid), copy(&self.nodes[node].values), copy(&self.nodes[node].ends)


cdef bytes copy(const Vector* vector):
    return PyBytes_FromStringAndSize(vector.data, vector.size) if vector.size else b""


def read_block_head(bytes data not None, int64_t begin):
    """Return the number of records of a block that begins somewhere, and where its content begins and ends.

    Raises
    ------
    ValueError
        It does not end before the end of the data.
    """
    cdef Cursor cursor
    cdef int64_t count, size
    if begin < 0:
        raise ValueError(f"no such bytes: {begin}")
    cursor.data, cursor.at, cursor.end = <const uint8_t*>PyBytes_AS_STRING(data), begin, PyBytes_GET_SIZE(data)
    cdef Fault fault = take_long(&cursor, &count)
    if not fault:
        fault = take_long(&cursor, &size)
    if not fault and (size < 0 or size > cursor.end - cursor.at):
        fault = BAD_LENGTH
    if fault:
        raise ValueError(TEXTS[fault])
    return count, cursor.at, cursor.at + size
