from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum Fault:
    NONE = 0
    NO_MEMORY
    NO_METADATA
    BAD_METADATA
    CUT_OFF
    UNKNOWN_TYPE
    BAD_FIELD
    UNSORTED
    OVERLAPPING
    TOO_DEEP
    TOO_LONG
    BAD_TEXT
    BAD_DECIMAL
    BAD_TIME
    BOTH_SET
    NOT_OBJECT
    FIELD_TWICE
    BAD_ARROW
    # of casts, not of the bytes
    CAST_FAILS
    NEEDS_ZONE
    NO_CAST


# The type of a value, whichever way it is stored. What Parquet calls int8 to int64 are one type, as are long and short
# strings and the three widths of decimals.
cdef enum Type:
    MISSING = 0
    VARIANT_NULL
    BOOLEAN
    INTEGER
    FLOAT
    DOUBLE
    DECIMAL
    DATE
    TIME
    TIMESTAMP
    TIMESTAMP_NTZ
    TIMESTAMP_NANOS
    TIMESTAMP_NTZ_NANOS
    STRING
    BINARY
    UUID
    OBJECT
    ARRAY


cdef struct Text:
    char* data
    size_t size
    size_t capacity


cdef struct Dictionary:     # the metadata of a row: names of fields
    int width               # bytes of an offset
    int64_t count
    const uint8_t* offsets
    const uint8_t* names
    int64_t size            # of all names


cdef struct Strings:        # an Arrow array of binary or string
    bint exists
    const uint8_t* valid    # NULL: all are
    const uint8_t* ends
    bint wide               # offsets of 64 bits
    const uint8_t* data
    int64_t size
    int64_t first           # the array's offset
    int64_t length


cdef struct Node:           # a group of `value` and `typed_value`
    const uint8_t* valid    # of the group itself
    int64_t first
    int64_t length
    Strings value
    int type                # of `typed_value`; MISSING if there is none
    int width               # bytes of a number
    int scale
    Strings typed           # numbers have `data` only, objects neither
    int first_child
    int num_children        # of an object, in the order of their names; 1 of an array
    const char* name        # under which an object has it
    int64_t name_size


cdef struct Spot:           # where a value is: `data` of an encoded one, else a node and an index; -1 if it is missing
    const uint8_t* data
    int64_t size
    int node
    int64_t index


cdef struct Scalar:
    int type
    int64_t number          # of booleans, integers, dates and times; the lower half of decimals
    int64_t high            # the upper half of decimals
    int scale
    double real
    const uint8_t* data     # of strings, binaries, UUIDs
    int64_t size


cdef struct Row:            # what values of a row are read with
    Node* nodes
    bint has_names
    Dictionary names
    int64_t names_left      # bytes of names that may still be written
    bint without_zone       # a timestamp with a zone is not written


cdef Fault reserve(Text* text, size_t more) noexcept nogil
cdef Fault append(Text* text, const void* data, size_t size) noexcept nogil
cdef bint is_valid(const uint8_t* bitmap, int64_t index) noexcept nogil
cdef bint is_utf8(const uint8_t* data, int64_t size) noexcept nogil
cdef Fault get_string(const Strings* strings, int64_t index, const uint8_t** data, int64_t* size) noexcept nogil
cdef Fault open_row(Row* row, const uint8_t* metadata, int64_t size) noexcept nogil
cdef Fault measure(const uint8_t* data, int64_t available, int64_t* size) noexcept nogil
cdef Fault locate(Row* row, int node, int64_t index, Spot* out) noexcept nogil
cdef Fault find_field(Row* row, const Spot* parent, const char* name, int64_t size, int child, Spot* out) noexcept nogil
cdef Fault find_element(Row* row, const Spot* parent, int64_t position, Spot* out) noexcept nogil
cdef void set_null(Spot* out) noexcept nogil
cdef Fault read_scalar(Row* row, const Spot* spot, Scalar* out) noexcept nogil
cdef Fault write_json(Row* row, const Spot* spot, Text* out, int depth) noexcept nogil
cdef Fault write_plain(Row* row, const Scalar* scalar, Text* out) noexcept nogil
cdef int write_decimal_digits(const Scalar* decimal, char* out) noexcept nogil
