# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Read Parquet's Variants, encoded or shredded; every offset, count and size is checked against the bytes there are.

Children of an object or array may not overlap: what they take together is bounded by what their parent takes, so that
work and memory are bounded by the bytes of a row.

Source: parquet-format, VariantEncoding.md and VariantShredding.md.
"""

from libc.math cimport isinf, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp, memcpy

from .float_text cimport write_double, write_float


cdef enum:
    DEEPEST = 1000          # values within each other, as Spark's parser takes them
    FEW_FIELDS = 32         # of an object, which are searched in turn
    MOST_DIGITS = 38
    MOST_PER_BYTE = 64      # bytes of names in a text for a byte of a row
    LEAST_NAMES = 1 << 24


cdef Fault reserve(Text* text, size_t more) noexcept nogil:
    cdef size_t capacity
    cdef char* grown
    if more > text.capacity - text.size:
        capacity = max(2 * text.capacity, text.size + more, <size_t>256)
        grown = <char*>realloc(text.data, capacity)
        if grown == NULL:
            return NO_MEMORY
        text.data, text.capacity = grown, capacity
    return NONE


cdef Fault append(Text* text, const void* data, size_t size) noexcept nogil:
    cdef Fault fault = reserve(text, size)
    if not fault and size:
        memcpy(text.data + text.size, data, size)
        text.size += size
    return fault


cdef inline Fault append_byte(Text* text, char byte) noexcept nogil:
    cdef Fault fault = NONE
    if text.size == text.capacity:
        fault = reserve(text, 1)
    if not fault:
        text.data[text.size] = byte
        text.size += 1
    return fault


cdef inline bint is_valid(const uint8_t* bitmap, int64_t index) noexcept nogil:
    return bitmap == NULL or bitmap[index >> 3] >> (index & 7) & 1


cdef inline uint64_t read_number(const uint8_t* data, int width) noexcept nogil:
    """Read a little-endian number of 1 to 4 bytes."""
    cdef uint64_t number = data[0]
    if width > 1:
        number |= <uint64_t>data[1] << 8
    if width > 2:
        number |= <uint64_t>data[2] << 16
    if width > 3:
        number |= <uint64_t>data[3] << 24
    return number


cdef bint is_utf8(const uint8_t* data, int64_t size) noexcept nogil:
    cdef int64_t i = 0
    cdef uint64_t eight
    cdef uint8_t lead, second
    while i < size:
        if size - i >= 8:
            memcpy(&eight, data + i, 8)
            if not eight & <uint64_t>0x8080808080808080:
                i += 8
                continue
        lead = data[i]
        if lead < 0x80:
            i += 1
        elif lead < 0xC2 or lead > 0xF4 or i + 1 >= size:
            return False
        else:
            second = data[i + 1]
            if second & 0xC0 != 0x80:
                return False
            if lead < 0xE0:
                i += 2
            elif lead < 0xF0:
                if i + 2 >= size or data[i + 2] & 0xC0 != 0x80:
                    return False
                if lead == 0xE0 and second < 0xA0 or lead == 0xED and second > 0x9F:
                    return False
                i += 3
            else:
                if i + 3 >= size or data[i + 2] & 0xC0 != 0x80 or data[i + 3] & 0xC0 != 0x80:
                    return False
                if lead == 0xF0 and second < 0x90 or lead == 0xF4 and second > 0x8F:
                    return False
                i += 4
    return True


cdef Fault get_string(const Strings* strings, int64_t index, const uint8_t** data, int64_t* size) noexcept nogil:
    """Get the bytes at an index, which is not null."""
    cdef int64_t begin, end, at = strings.first + index
    cdef int32_t ends[2]
    if strings.wide:
        memcpy(&begin, strings.ends + at * 8, 8)
        memcpy(&end, strings.ends + at * 8 + 8, 8)
    else:
        memcpy(ends, strings.ends + at * 4, 8)
        begin, end = ends[0], ends[1]
    if begin < 0 or end < begin or end > strings.size:
        return BAD_ARROW
    data[0], size[0] = strings.data + begin, end - begin
    return NONE


# Encoded values


cdef Fault open_row(Row* row, const uint8_t* metadata, int64_t size) noexcept nogil:
    """Begin to read a row by its metadata; NULL if it is not at hand, as fully shredded values need none."""
    cdef Dictionary* names = &row.names
    cdef int64_t head
    row.names_left = LEAST_NAMES + MOST_PER_BYTE * size
    names.count = 0
    row.has_names = metadata != NULL
    if not row.has_names:
        return NONE
    if size < 1 or metadata[0] & 15 != 1:
        return BAD_METADATA
    names.width = (metadata[0] >> 6) + 1
    if size < 1 + names.width:
        return BAD_METADATA
    names.count = <int64_t>read_number(metadata + 1, names.width)
    head = 1 + (names.count + 2) * names.width
    if head > size:
        return BAD_METADATA
    names.offsets = metadata + 1 + names.width
    names.names = metadata + head
    names.size = size - head
    return NONE


cdef inline Fault get_name(const Row* row, uint64_t number, const uint8_t** name, int64_t* size) noexcept nogil:
    cdef const Dictionary* names = &row.names
    cdef int64_t begin, end
    if number >= <uint64_t>names.count:
        return BAD_FIELD if row.has_names else NO_METADATA
    begin = <int64_t>read_number(names.offsets + number * names.width, names.width)
    end = <int64_t>read_number(names.offsets + (number + 1) * names.width, names.width)
    if end < begin or end > names.size:
        return BAD_METADATA
    name[0], size[0] = names.names + begin, end - begin
    return NONE


cdef struct Container:      # an encoded object or array
    int64_t count
    int id_width
    int width               # bytes of an offset
    const uint8_t* ids
    const uint8_t* offsets
    const uint8_t* values
    int64_t size            # of all values


cdef Fault open_container(const uint8_t* data, int64_t available, Container* out) noexcept nogil:
    """Read the head of an object or array."""
    cdef int head = data[0] >> 2, count_width
    cdef int64_t start
    out.width = (head & 3) + 1
    if data[0] & 3 == 2:
        out.id_width = (head >> 2 & 3) + 1
        count_width = 4 if head & 16 else 1
    else:
        out.id_width = 0
        count_width = 4 if head & 4 else 1
    if available < 1 + count_width:
        return CUT_OFF
    out.count = <int64_t>read_number(data + 1, count_width)
    start = 1 + count_width + out.count * (out.id_width + out.width) + out.width
    if start > available:
        return CUT_OFF
    out.ids = data + 1 + count_width
    out.offsets = out.ids + out.count * out.id_width
    out.values = data + start
    out.size = <int64_t>read_number(out.offsets + out.count * out.width, out.width)
    if out.size > available - start:
        return CUT_OFF
    return NONE


cdef Fault measure(const uint8_t* data, int64_t available, int64_t* size) noexcept nogil:
    """Say how many bytes an encoded value takes, of those there are."""
    cdef Container container
    cdef int64_t needed
    cdef int head
    cdef Fault fault
    if available < 1:
        return CUT_OFF
    head = data[0] >> 2
    if data[0] & 3 == 1:
        needed = 1 + head
    elif data[0] & 3:
        fault = open_container(data, available, &container)
        if fault:
            return fault
        needed = container.values - data + container.size
    elif head <= 2:
        needed = 1
    elif head == 3:
        needed = 2
    elif head == 4:
        needed = 3
    elif head == 5 or head == 11 or head == 14:
        needed = 5
    elif head == 6 or head == 7 or head == 12 or head == 13 or 17 <= head <= 19:
        needed = 9
    elif head == 8:
        needed = 6
    elif head == 9:
        needed = 10
    elif head == 10:
        needed = 18
    elif head == 15 or head == 16:
        if available < 5:
            return CUT_OFF
        needed = 5 + <int64_t>read_number(data + 1, 4)
    elif head == 20:
        needed = 17
    else:
        return UNKNOWN_TYPE
    if needed > available:
        return CUT_OFF
    size[0] = needed
    return NONE


cdef Fault get_child(const Container* container, int64_t number, const uint8_t** data, int64_t* size) noexcept nogil:
    cdef int64_t offset = <int64_t>read_number(container.offsets + number * container.width, container.width)
    if offset >= container.size:
        return CUT_OFF
    data[0] = container.values + offset
    return measure(container.values + offset, container.size - offset, size)


cdef inline int compare(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    cdef int order = memcmp(a, b, min(a_size, b_size)) if a_size and b_size else 0
    if order:
        return order
    return (a_size > b_size) - (a_size < b_size)


cdef struct Order:          # of the names of an object so far
    const uint8_t* last
    int64_t size
    bint rises              # by UTF-8
    bint rises_as_java      # by UTF-16


cdef bint is_next(Order* order, const uint8_t* name, int64_t size) noexcept nogil:
    """Say whether a name follows those before, in either order; which of the two writers take differs."""
    cdef int64_t i = 0, both = min(order.size, size)
    cdef bint differ
    if order.last != NULL:
        while i < both and order.last[i] == name[i]:
            i += 1
        if i == both:
            if order.size >= size:
                return False
        else:
            differ = order.last[i] >= 0xEE and name[i] >= 0xEE and (order.last[i] < 0xF0) != (name[i] < 0xF0)
            order.rises = order.rises and order.last[i] < name[i]
            order.rises_as_java = order.rises_as_java and (order.last[i] < name[i]) != differ
    order.last, order.size = name, size
    return order.rises or order.rises_as_java


cdef int compare_as_java(const uint8_t* a, int64_t a_size, const uint8_t* b, int64_t b_size) noexcept nogil:
    """Compare names by their UTF-16: what is above U+FFFF comes before U+E000, unlike in UTF-8."""
    cdef int64_t i
    for i in range(min(a_size, b_size)):
        if a[i] != b[i]:
            if a[i] >= 0xEE and b[i] >= 0xEE and (a[i] < 0xF0) != (b[i] < 0xF0):
                return 1 if a[i] < 0xF0 else -1
            return 1 if a[i] > b[i] else -1
    return (a_size > b_size) - (a_size < b_size)


cdef inline Fault get_field_name(Row* row, const Container* of, int64_t number, const uint8_t** name, int64_t* size) noexcept nogil:
    return get_name(row, read_number(of.ids + number * of.id_width, of.id_width), name, size)


cdef Fault find_encoded(Row* row, const Spot* parent, const uint8_t* name, int64_t size, Spot* out) noexcept nogil:
    """Find a field of an encoded value: missing if it is no object, or has none of that name."""
    cdef Container container
    cdef const uint8_t* other
    cdef int64_t other_size, low = 0, high, middle, i
    cdef int order
    cdef bint in_turn
    out.data, out.node = NULL, -1
    if parent.data[0] & 3 != 2:
        return NONE
    cdef Fault fault = open_container(parent.data, parent.size, &container)
    if fault:
        return fault
    in_turn = container.count < FEW_FIELDS
    for i in range(0 if in_turn else size):
        # Writers sort by UTF-8 or by UTF-16, which differ from this byte on.
        in_turn = in_turn or name[i] >= 0xEE
    high = container.count
    while low < high:
        middle = low if in_turn else (low + high) >> 1
        fault = get_field_name(row, &container, middle, &other, &other_size)
        if fault:
            return fault
        if in_turn and size != other_size:
            low += 1
            continue
        order = compare(name, size, other, other_size)
        if order == 0:
            return get_child(&container, middle, &out.data, &out.size)
        if in_turn or order > 0:
            low = middle + 1
        else:
            high = middle
    return NONE


# Values of either kind


cdef Fault locate(Row* row, int node, int64_t index, Spot* out) noexcept nogil:
    """Find the value of a group at an index."""
    cdef Node* group = &row.nodes[node]
    cdef bint is_typed, has_value
    cdef const uint8_t* data
    cdef int64_t size
    cdef Fault fault
    out.data, out.node, out.index = NULL, -1, index
    if not is_valid(group.valid, group.first + index):
        return NONE
    is_typed = group.type != MISSING and is_valid(group.typed.valid, group.typed.first + index)
    has_value = group.value.exists and is_valid(group.value.valid, group.value.first + index)
    if is_typed:
        if has_value and group.type != OBJECT:
            return BOTH_SET
        out.node = node
    elif has_value:
        fault = get_string(&group.value, index, &data, &size)
        if fault:
            return fault
        out.data = data
        row.names_left += MOST_PER_BYTE * size
        return measure(data, size, &out.size)
    return NONE


cdef inline bint has_residual(const Node* group, int64_t index) noexcept nogil:
    return group.value.exists and is_valid(group.value.valid, group.value.first + index)


cdef Fault get_residual(Row* row, int node, int64_t index, Spot* out) noexcept nogil:
    """Get the encoded part of a shredded object."""
    cdef Node* group = &row.nodes[node]
    cdef const uint8_t* data
    cdef int64_t size
    cdef Fault fault = get_string(&group.value, index, &data, &size)
    if fault:
        return fault
    out.data, out.node = data, -1
    row.names_left += MOST_PER_BYTE * size
    fault = measure(data, size, &out.size)
    if not fault and data[0] & 3 != 2:
        return NOT_OBJECT
    return fault


cdef Fault find_field(Row* row, const Spot* parent, const char* name, int64_t size, int child, Spot* out) noexcept nogil:
    """Find a field of a value.

    `child` is the node that the object is shredded to, or -1. A shredded field must not be in the encoded part; one
    that is there alone is an error, rather than lost.
    """
    cdef Spot residual
    cdef Node* group
    cdef Fault fault = NONE
    if parent.data != NULL:
        return find_encoded(row, parent, <const uint8_t*>name, size, out)
    out.data, out.node = NULL, -1
    if parent.node < 0 or row.nodes[parent.node].type != OBJECT:
        return NONE
    group = &row.nodes[parent.node]
    if child >= 0:
        fault = locate(row, child, parent.index, out)
        if fault or out.data != NULL or out.node >= 0:
            return fault
    if has_residual(group, parent.index):
        fault = get_residual(row, parent.node, parent.index, &residual)
        if not fault:
            fault = find_encoded(row, &residual, <const uint8_t*>name, size, out)
        if not fault and child >= 0 and out.data != NULL:
            return FIELD_TWICE
    return fault


cdef Fault get_range(const Node* group, const Node* element, int64_t index, int64_t* begin, int64_t* end) noexcept nogil:
    """Get the range of the elements of a shredded array."""
    cdef int64_t at = group.typed.first + index
    cdef int32_t ends[2]
    if group.typed.wide:
        memcpy(begin, group.typed.ends + at * 8, 8)
        memcpy(end, group.typed.ends + at * 8 + 8, 8)
    else:
        memcpy(ends, group.typed.ends + at * 4, 8)
        begin[0], end[0] = ends[0], ends[1]
    if begin[0] < 0 or end[0] < begin[0] or end[0] > element.length:
        return BAD_ARROW
    return NONE


cdef Fault find_element(Row* row, const Spot* parent, int64_t position, Spot* out) noexcept nogil:
    """Find an element of a value: missing if it is no array, or too short."""
    cdef Container container
    cdef Node* group
    cdef int64_t begin, end
    cdef Fault fault
    out.data, out.node = NULL, -1
    if parent.data != NULL:
        if parent.data[0] & 3 != 3:
            return NONE
        fault = open_container(parent.data, parent.size, &container)
        if fault or position >= container.count:
            return fault
        return get_child(&container, position, &out.data, &out.size)
    if parent.node < 0 or row.nodes[parent.node].type != ARRAY:
        return NONE
    group = &row.nodes[parent.node]
    fault = get_range(group, &row.nodes[group.first_child], parent.index, &begin, &end)
    if fault or position >= end - begin:
        return fault
    fault = locate(row, group.first_child, begin + position, out)
    if not fault and out.data == NULL and out.node < 0:
        set_null(out)
    return fault


cdef uint8_t ENCODED_NULL = 0


cdef void set_null(Spot* out) noexcept nogil:
    """Where a value has to be, a missing one is a Variant null."""
    out.data, out.size, out.node = &ENCODED_NULL, 1, -1


cdef inline void read_decimal(const uint8_t* data, int width, Scalar* out) noexcept nogil:
    cdef int32_t narrow
    if width == 4:
        memcpy(&narrow, data, 4)
        out.number = narrow
    else:
        memcpy(&out.number, data, 8)
    out.high = -1 if out.number < 0 else 0
    if width == 16:
        memcpy(&out.high, data + 8, 8)


cdef Fault read_encoded(const uint8_t* data, int64_t size, Scalar* out) noexcept nogil:
    """Read an encoded value, all of whose bytes are there."""
    cdef int head = data[0] >> 2, basic = data[0] & 3
    cdef int8_t one
    cdef int16_t two
    cdef int32_t four
    cdef float real
    data += 1
    out.data, out.size = data, size - 1
    if basic:
        out.type = STRING if basic == 1 else OBJECT if basic == 2 else ARRAY
    elif head == 0:
        out.type = VARIANT_NULL
    elif head <= 2:
        out.type, out.number = BOOLEAN, head == 1
    elif head == 3:
        memcpy(&one, data, 1)
        out.type, out.number = INTEGER, one
    elif head == 4:
        memcpy(&two, data, 2)
        out.type, out.number = INTEGER, two
    elif head == 5 or head == 11:
        memcpy(&four, data, 4)
        out.type, out.number = INTEGER if head == 5 else DATE, four
    elif head == 7:
        memcpy(&out.real, data, 8)
        out.type = DOUBLE
    elif head == 14:
        memcpy(&real, data, 4)
        out.type, out.real = FLOAT, real
    elif head == 6 or head == 12 or head == 13 or 17 <= head <= 19:
        memcpy(&out.number, data, 8)
        out.type = (
            INTEGER if head == 6 else TIMESTAMP if head == 12 else TIMESTAMP_NTZ if head == 13 else TIME if head == 17
            else TIMESTAMP_NANOS if head == 18 else TIMESTAMP_NTZ_NANOS
        )
    elif 8 <= head <= 10:
        out.type, out.scale = DECIMAL, data[0]
        read_decimal(data + 1, 4 if head == 8 else 8 if head == 9 else 16, out)
        if out.scale > MOST_DIGITS or not fits(out):
            return BAD_DECIMAL
    elif head == 15 or head == 16:
        out.type = BINARY if head == 15 else STRING
        out.data, out.size = data + 4, size - 5
    elif head == 20:
        out.type = UUID
    else:
        return UNKNOWN_TYPE
    return NONE


cdef Fault read_scalar(Row* row, const Spot* spot, Scalar* out) noexcept nogil:
    """Read a value; of objects and arrays only the type."""
    cdef Node* group
    cdef const uint8_t* data
    cdef int64_t at
    cdef int8_t one
    cdef int16_t two
    cdef int32_t four
    cdef float real
    if spot.data != NULL:
        return read_encoded(spot.data, spot.size, out)
    if spot.node < 0:
        out.type = MISSING
        return NONE
    group = &row.nodes[spot.node]
    out.type = group.type
    if group.type == STRING or group.type == BINARY:
        return get_string(&group.typed, spot.index, &out.data, &out.size)
    if group.type == OBJECT or group.type == ARRAY:
        return NONE
    at = group.typed.first + spot.index
    if group.type == BOOLEAN:
        out.number = is_valid(group.typed.data, at)
        return NONE
    data = group.typed.data + at * group.width
    if group.type == DECIMAL:
        out.scale = group.scale
        read_decimal(data, group.width, out)
        return NONE if fits(out) else BAD_DECIMAL
    if group.type == UUID:
        out.data, out.size = data, 16
    elif group.type == FLOAT:
        memcpy(&real, data, 4)
        out.real = real
    elif group.type == DOUBLE:
        memcpy(&out.real, data, 8)
    elif group.width == 1:
        memcpy(&one, data, 1)
        out.number = one
    elif group.width == 2:
        memcpy(&two, data, 2)
        out.number = two
    elif group.width == 4:
        memcpy(&four, data, 4)
        out.number = four
    else:
        memcpy(&out.number, data, 8)
    return NONE


# Decimals


cdef inline void get_magnitude(const Scalar* decimal, uint64_t* low, uint64_t* high) noexcept nogil:
    low[0], high[0] = <uint64_t>decimal.number, <uint64_t>decimal.high
    if decimal.high < 0:
        low[0] = 0 - low[0]
        high[0] = ~high[0] + (low[0] == 0)


cdef inline bint fits(const Scalar* decimal) noexcept nogil:
    """Say whether a decimal has at most 38 digits."""
    cdef uint64_t low, high, most_low = <uint64_t>0x098A223FFFFFFFFF, most_high = <uint64_t>0x4B3B4CA85A86C47A
    get_magnitude(decimal, &low, &high)
    return high < most_high or high == most_high and low <= most_low


cdef int write_decimal_digits(const Scalar* decimal, char* out) noexcept nogil:
    """Write the digits of a decimal's unscaled magnitude, none of zero; return how many (at most 38)."""
    cdef uint64_t low, high, rest
    cdef uint64_t limbs[4]
    cdef char digits[48]
    cdef int count = 0, i, j
    get_magnitude(decimal, &low, &high)
    while high:
        limbs[0], limbs[1], limbs[2], limbs[3] = high >> 32, <uint32_t>high, low >> 32, <uint32_t>low
        rest = 0
        for i in range(4):
            rest = rest << 32 | limbs[i]
            limbs[i] = rest // 1_000_000_000
            rest %= 1_000_000_000
        high, low = limbs[0] << 32 | limbs[1], limbs[2] << 32 | limbs[3]
        for j in range(9):
            digits[count] = c"0" + rest % 10
            rest //= 10
            count += 1
    while low:
        digits[count] = c"0" + low % 10
        low //= 10
        count += 1
    while count and digits[count - 1] == c"0":
        count -= 1
    for i in range(count):
        out[i] = digits[count - 1 - i]
    return count


cdef int write_decimal(const Scalar* decimal, char* out) noexcept nogil:
    """Write a decimal without zeros at its end, and return the count of bytes: at most 42."""
    cdef char digits[MOST_DIGITS]
    cdef int count = write_decimal_digits(decimal, digits), scale = decimal.scale, size = 0, i
    if count == 0:
        out[0] = c"0"
        return 1
    while scale > 0 and count > 1 and digits[count - 1] == c"0":
        count -= 1
        scale -= 1
    if decimal.high < 0:
        out[0] = c"-"
        size = 1
    if count <= scale:
        out[size] = c"0"
        out[size + 1] = c"."
        size += 2
        for i in range(scale - count):
            out[size] = c"0"
            size += 1
    for i in range(count):
        if i and i == count - scale:
            out[size] = c"."
            size += 1
        out[size] = digits[i]
        size += 1
    return size


# Text


cdef inline int write_integer(int64_t number, char* out) noexcept nogil:
    cdef char digits[20]
    cdef uint64_t rest = 0 - <uint64_t>number if number < 0 else <uint64_t>number
    cdef int count = 0, size = 0
    while True:
        digits[count] = c"0" + rest % 10
        rest //= 10
        count += 1
        if not rest:
            break
    if number < 0:
        out[0] = c"-"
        size = 1
    while count:
        count -= 1
        out[size] = digits[count]
        size += 1
    return size


cdef inline int write_padded(int64_t number, int width, char* out) noexcept nogil:
    cdef int i
    for i in range(width):
        out[width - 1 - i] = c"0" + number % 10
        number //= 10
    return width


cdef int write_date(int64_t days, char* out) noexcept nogil:
    """Write days since 1970 as ISO 8601, with a sign before years of more than four digits and below zero."""
    # Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March.
    cdef int64_t shifted = days + 719_468
    cdef int64_t era = (shifted if shifted >= 0 else shifted - 146_096) // 146_097
    cdef int64_t day_of_era = shifted - era * 146_097
    cdef int64_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    cdef int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int64_t month = (5 * day_of_year + 2) // 153
    cdef int64_t day = day_of_year - (153 * month + 2) // 5 + 1
    cdef int64_t year = year_of_era + era * 400
    cdef int size = 0
    month = month + 3 if month < 10 else month - 9
    year += month <= 2
    if year < 0:
        out[0] = c"-"
        size = 1
        year = -year
    elif year > 9999:
        out[0] = c"+"
        size = 1
    size += write_integer(year, out + size) if year > 9999 else write_padded(year, 4, out + size)
    out[size] = c"-"
    size += 1 + write_padded(month, 2, out + size + 1)
    out[size] = c"-"
    return size + 1 + write_padded(day, 2, out + size + 1)


cdef int write_time(int64_t units, int64_t per_second, char* out) noexcept nogil:
    """Write a time of day, with as many digits of a second as it takes."""
    cdef int64_t second = units // per_second, rest = units % per_second
    cdef int size
    write_padded(second // 3600, 2, out)
    out[2] = c":"
    write_padded(second // 60 % 60, 2, out + 3)
    out[5] = c":"
    write_padded(second % 60, 2, out + 6)
    if rest == 0:
        return 8
    out[8] = c"."
    size = 9 + write_padded(rest, 6 if per_second == 1_000_000 else 9, out + 9)
    while out[size - 1] == c"0":
        size -= 1
    return size


cdef int write_timestamp(int64_t units, int64_t per_second, char* out) noexcept nogil:
    cdef int64_t per_day = 86_400 * per_second, days = units // per_day, rest = units % per_day
    cdef int size
    if rest < 0:
        days -= 1
        rest += per_day
    size = write_date(days, out)
    out[size] = c" "
    return size + 1 + write_time(rest, per_second, out + size + 1)


cdef int write_uuid(const uint8_t* data, char* out) noexcept nogil:
    cdef int i, size = 0
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[size] = c"-"
            size += 1
        out[size] = b"0123456789abcdef"[data[i] >> 4]
        out[size + 1] = b"0123456789abcdef"[data[i] & 15]
        size += 2
    return size


cdef Fault append_base64(const uint8_t* data, int64_t size, Text* out) noexcept nogil:
    cdef const char* alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    cdef int64_t i = 0
    cdef uint32_t three
    cdef char* at
    cdef Fault fault = reserve(out, (size + 2) // 3 * 4)
    if fault:
        return fault
    at = out.data + out.size
    while i < size:
        three = <uint32_t>data[i] << 16
        if i + 1 < size:
            three |= <uint32_t>data[i + 1] << 8
        if i + 2 < size:
            three |= data[i + 2]
        at[0] = alphabet[three >> 18]
        at[1] = alphabet[three >> 12 & 63]
        at[2] = alphabet[three >> 6 & 63] if i + 1 < size else c"="
        at[3] = alphabet[three & 63] if i + 2 < size else c"="
        at += 4
        i += 3
    out.size = at - out.data
    return NONE


cdef Fault append_quoted(const uint8_t* data, int64_t size, Text* out) noexcept nogil:
    """Append a JSON string; only what has to be is escaped."""
    cdef int64_t i, plain = 0
    cdef uint8_t byte
    cdef char* at
    cdef char short
    cdef Fault fault
    if not is_utf8(data, size):
        return BAD_TEXT
    fault = reserve(out, size + 2)
    if fault:
        return fault
    out.data[out.size] = c'"'
    out.size += 1
    for i in range(size):
        byte = data[i]
        if byte >= 32 and byte != c'"' and byte != c"\\":
            continue
        fault = append(out, data + plain, i - plain)
        if not fault:
            fault = reserve(out, 6)
        if fault:
            return fault
        plain = i + 1
        at = out.data + out.size
        at[0] = c"\\"
        short = (
            byte if byte >= 32 else c"n" if byte == 10 else c"t" if byte == 9 else c"r" if byte == 13
            else c"b" if byte == 8 else c"f" if byte == 12 else 0
        )
        if short:
            at[1] = short
            out.size += 2
        else:
            memcpy(at + 1, b"u00", 3)
            at[4] = c"0" + (byte >> 4)
            at[5] = b"0123456789ABCDEF"[byte & 15]
            out.size += 6
    fault = append(out, data + plain, size - plain)
    return fault if fault else append_byte(out, c'"')


cdef Fault write_plain(Row* row, const Scalar* scalar, Text* out) noexcept nogil:
    """Write a value without quotes, and binary as it is; not objects and arrays."""
    cdef Fault fault = reserve(out, 64)
    cdef char* at
    if fault:
        return fault
    at = out.data + out.size
    if scalar.type == INTEGER:
        out.size += write_integer(scalar.number, at)
    elif scalar.type == STRING or scalar.type == BINARY:
        return append(out, scalar.data, scalar.size)
    elif scalar.type == DOUBLE:
        out.size += write_double(scalar.real, at)
    elif scalar.type == FLOAT:
        out.size += write_float(<float>scalar.real, at)
    elif scalar.type == DECIMAL:
        out.size += write_decimal(scalar, at)
    elif scalar.type == BOOLEAN:
        return append(out, b"true" if scalar.number else b"false", 4 if scalar.number else 5)
    elif scalar.type == DATE:
        out.size += write_date(scalar.number, at)
    elif scalar.type == TIME:
        if scalar.number < 0 or scalar.number >= <int64_t>86_400_000_000:
            return BAD_TIME
        out.size += write_time(scalar.number, 1_000_000, at)
    elif scalar.type == TIMESTAMP_NTZ:
        out.size += write_timestamp(scalar.number, 1_000_000, at)
    elif scalar.type == TIMESTAMP_NTZ_NANOS:
        out.size += write_timestamp(scalar.number, 1_000_000_000, at)
    elif scalar.type == TIMESTAMP or scalar.type == TIMESTAMP_NANOS:
        if row.without_zone:
            return NEEDS_ZONE
        out.size += write_timestamp(scalar.number, 1_000_000 if scalar.type == TIMESTAMP else 1_000_000_000, at)
        return append(out, b"+00:00", 6)
    elif scalar.type == UUID:
        out.size += write_uuid(scalar.data, at)
    else:
        return append(out, b"null", 4)
    return NONE


cdef Fault write_name(Row* row, const uint8_t* name, int64_t size, Text* out) noexcept nogil:
    """Write the name of a field; names are shared, so that few bytes could stand for many."""
    row.names_left -= size
    if row.names_left < 0:
        return TOO_LONG
    cdef Fault fault = append_quoted(name, size, out)
    return fault if fault else append_byte(out, c":")


cdef Fault write_encoded(Row* row, const Spot* spot, Text* out, int depth) noexcept nogil:
    """Write an encoded object or array as JSON."""
    cdef bint is_object = spot.data[0] & 3 == 2
    cdef Container container
    cdef Order order = [NULL, 0, True, True]
    cdef Spot child
    cdef const uint8_t* name
    cdef int64_t size, i, left
    cdef Fault fault = open_container(spot.data, spot.size, &container)
    if not fault:
        fault = append_byte(out, c"{" if is_object else c"[")
    if fault:
        return fault
    left = container.size
    child.node = -1
    for i in range(container.count):
        fault = get_child(&container, i, &child.data, &child.size)
        if fault:
            return fault
        left -= child.size
        if left < 0:
            return OVERLAPPING
        if i:
            fault = append_byte(out, c",")
        if is_object and not fault:
            fault = get_field_name(row, &container, i, &name, &size)
            if not fault and not is_next(&order, name, size):
                fault = UNSORTED
            if not fault:
                fault = write_name(row, name, size, out)
        if not fault:
            fault = write_json(row, &child, out, depth + 1)
        if fault:
            return fault
    return append_byte(out, c"}" if is_object else c"]")


cdef bint is_child(Row* row, const Node* group, const uint8_t* name, int64_t size) noexcept nogil:
    """Say whether an object is shredded to a field of that name."""
    cdef int low = group.first_child, high = low + group.num_children, middle, order
    cdef Node* child
    while low < high:
        middle = (low + high) >> 1
        child = &row.nodes[middle]
        order = compare_as_java(name, size, <const uint8_t*>child.name, child.name_size)
        if order == 0:
            return True
        if order > 0:
            low = middle + 1
        else:
            high = middle
    return False


cdef Fault write_shredded_object(Row* row, const Spot* spot, Text* out, int depth) noexcept nogil:
    """Write a shredded object as JSON, its fields and those of its encoded part in the order of their names."""
    cdef Node* group = &row.nodes[spot.node]
    cdef Node* child
    cdef Container container
    cdef Order order = [NULL, 0, True, True]
    cdef Spot residual, field
    cdef const uint8_t* name = NULL
    cdef int64_t size = 0, i = 0, left
    cdef int next = group.first_child, end = next + group.num_children
    cdef bint first = True, is_shredded
    cdef Fault fault = append_byte(out, c"{")
    container.count = 0
    container.size = 0
    if not fault and has_residual(group, spot.index):
        fault = get_residual(row, spot.node, spot.index, &residual)
        if not fault:
            fault = open_container(residual.data, residual.size, &container)
    if fault:
        return fault
    left = container.size
    while i < container.count or next < end:
        if i < container.count:
            fault = get_field_name(row, &container, i, &name, &size)
            if not fault and is_child(row, group, name, size):
                fault = FIELD_TWICE
            if fault:
                return fault
        child = &row.nodes[next] if next < end else NULL
        is_shredded = child != NULL
        if is_shredded and i < container.count:
            is_shredded = compare_as_java(<const uint8_t*>child.name, child.name_size, name, size) < 0
        if is_shredded:
            fault = locate(row, next, spot.index, &field)
            next += 1
            if not fault and field.data == NULL and field.node < 0:
                continue
        else:
            i += 1
            field.node = -1
            fault = get_child(&container, i - 1, &field.data, &field.size)
            left -= field.size if not fault else 0
            if left < 0:
                return OVERLAPPING
            if not is_next(&order, name, size):
                return UNSORTED
        if not fault and not first:
            fault = append_byte(out, c",")
        first = False
        if not fault:
            if is_shredded:
                fault = append_quoted(<const uint8_t*>child.name, child.name_size, out)
                if not fault:
                    fault = append_byte(out, c":")
            else:
                fault = write_name(row, name, size, out)
        if not fault:
            fault = write_json(row, &field, out, depth + 1)
        if fault:
            return fault
    return append_byte(out, c"}")


cdef Fault write_shredded_array(Row* row, const Spot* spot, Text* out, int depth) noexcept nogil:
    cdef Node* group = &row.nodes[spot.node]
    cdef Spot element
    cdef int64_t begin, end, i
    cdef Fault fault = get_range(group, &row.nodes[group.first_child], spot.index, &begin, &end)
    if not fault:
        fault = append_byte(out, c"[")
    if fault:
        return fault
    for i in range(begin, end):
        if i > begin:
            fault = append_byte(out, c",")
        if not fault:
            fault = locate(row, group.first_child, i, &element)
        if fault:
            return fault
        if element.data == NULL and element.node < 0:
            set_null(&element)
        fault = write_json(row, &element, out, depth + 1)
        if fault:
            return fault
    return append_byte(out, c"]")


cdef Fault write_json(Row* row, const Spot* spot, Text* out, int depth) noexcept nogil:
    """Write a value as Spark's `to_json` does; a missing one is null."""
    cdef Scalar scalar
    cdef bint quoted
    cdef Fault fault = read_scalar(row, spot, &scalar)
    if fault:
        return fault
    if scalar.type == OBJECT or scalar.type == ARRAY:
        if depth >= DEEPEST:
            return TOO_DEEP
        if spot.data != NULL:
            return write_encoded(row, spot, out, depth)
        if scalar.type == OBJECT:
            return write_shredded_object(row, spot, out, depth)
        return write_shredded_array(row, spot, out, depth)
    if scalar.type == STRING:
        return append_quoted(scalar.data, scalar.size, out)
    quoted = scalar.type >= DATE
    if scalar.type == DOUBLE or scalar.type == FLOAT:
        quoted = isnan(scalar.real) or isinf(scalar.real)
    if quoted:
        fault = append_byte(out, c'"')
    if not fault:
        fault = append_base64(scalar.data, scalar.size, out) if scalar.type == BINARY else write_plain(row, &scalar, out)
    if quoted and not fault:
        fault = append_byte(out, c'"')
    return fault
