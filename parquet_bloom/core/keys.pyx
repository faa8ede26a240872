# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A run of keys in memory in any layout: the input of the kernels."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef const uint8_t* _address(object buffer, Py_ssize_t* num_bytes) except? NULL:
    """Return the address of a buffer. The caller keeps the object alive; Arrow buffers and arrays do not move."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef const uint8_t* start = <const uint8_t*>view.buf
    num_bytes[0] = view.len
    PyBuffer_Release(&view)
    return start


cdef inline bint _fits(Py_ssize_t offset, Py_ssize_t length, Py_ssize_t count) noexcept:
    """Return whether `length` items from `offset` on are within `count`, without overflow."""
    return offset <= count and length <= count - offset


cdef bint _decreases(const KeySpan* span) noexcept nogil:
    """Return whether an offset is less than the one before it, or leaves no room for the bytes in front of a key."""
    cdef int32_t before32, next32
    cdef int64_t before64, next64
    cdef bint result = False
    cdef Py_ssize_t i
    # Without an early exit, so that the loop is vectorized: offsets hardly ever decrease.
    if span.layout == OFFSETS32:
        for i in range(span.length):
            memcpy(&before32, span.offsets + 4 * i, 4)
            memcpy(&next32, span.offsets + 4 * i + 4, 4)
            result |= <int64_t>next32 - before32 < span.lead
    else:
        for i in range(span.length):
            memcpy(&before64, span.offsets + 8 * i, 8)
            memcpy(&next64, span.offsets + 8 * i + 8, 8)
            result |= next64 < before64 or <uint64_t>next64 - <uint64_t>before64 < <uint64_t>span.lead
    return result


cdef Py_ssize_t _first_out_of_range(const KeySpan* span, const Py_ssize_t* num_bytes, Py_ssize_t num_buffers) noexcept nogil:
    """Return the first valid view that is outside of its buffer; the number of keys if there is none."""
    cdef View view
    cdef Py_ssize_t i
    for i in range(span.length):
        view = key_view(span, i)
        if not is_valid(span, i) or 0 <= view.length <= INLINE_BYTES:
            continue
        if view.length < 0 or not 0 <= view.buffer < num_buffers or view.offset < 0:
            return i
        if view.offset + <int64_t>view.length > num_bytes[view.buffer]:
            return i
    return span.length


cdef class Keys:
    """A run of keys in memory, not copied: the input of hash and filter kernels.

    Create one with `Keys.fixed`, `Keys.variable`, `Keys.views` or `Keys.hashed`; all keys are checked to lie inside their
    buffers.
    """

    def __cinit__(self):
        self.span.buffers = NULL
        self.span.lead = 0

    def __init__(self):
        raise TypeError("use Keys.fixed, Keys.variable, Keys.views or Keys.hashed")

    def __dealloc__(self):
        PyMem_Free(self.span.buffers)

    def __len__(self):
        return self.span.length

    @staticmethod
    def fixed(
        values, Py_ssize_t width, Py_ssize_t length, Py_ssize_t offset=0, validity=None, Py_ssize_t lead=0
    ):
        """Create keys of `width` bytes each, the first at key number `offset` of the buffer `values`.

        `validity` is an Arrow bitmap whose bit `offset` belongs to the first key; None when all are valid. Of each key's
        bytes, the first `lead` belong to none, as the lengths of plain-encoded byte arrays.
        """
        cdef Keys keys = Keys.__new__(Keys)
        cdef Py_ssize_t num_bytes = 0
        if width < 1 or length < 0 or offset < 0 or not 0 <= lead <= width:
            raise ValueError("width must be positive, length and offset not negative, lead not more than width")
        keys.owners = (values, validity)
        keys.span.layout = FIXED
        keys.span.offsets = NULL
        keys.span.width = width
        keys.span.lead = lead
        keys.span.length = length
        keys.span.data = NULL
        if length:
            keys.span.data = _address(values, &num_bytes)
            if not _fits(offset, length, num_bytes // width):
                raise ValueError("the keys do not fit in their buffer")
            keys.span.data += offset * width
        keys._set_validity(validity, offset)
        return keys

    @staticmethod
    def variable(
        offsets, data, Py_ssize_t length, Py_ssize_t offset=0, validity=None, bint wide=False, Py_ssize_t lead=0
    ):
        """Create keys of any length: key i is `data[offsets[i] + lead:offsets[i + 1]]`, the first is number `offset`.

        Offsets are int64 if `wide`, else int32; they are checked not to decrease and to lie inside the data. `lead` is
        the number of bytes in front of each key that belong to none, as the lengths of plain-encoded byte arrays.
        """
        cdef Keys keys = Keys.__new__(Keys)
        cdef Py_ssize_t num_bytes = 0
        cdef Py_ssize_t offset_bytes = 0
        cdef int width = 8 if wide else 4
        cdef const uint8_t* first
        cdef int64_t low, high
        cdef bint falling
        if length < 0 or offset < 0 or lead < 0:
            raise ValueError("length, offset and lead must not be negative")
        keys.owners = (offsets, data, validity)
        keys.span.layout = OFFSETS64 if wide else OFFSETS32
        keys.span.width = 0
        keys.span.lead = lead
        keys.span.length = length
        keys.span.data = NULL
        keys.span.offsets = NULL
        if length:
            first = _address(offsets, &offset_bytes)
            if not _fits(offset, length, offset_bytes // width - 1):
                raise ValueError("the offsets do not fit in their buffer")
            first += offset * width
            keys.span.offsets = first
            if data is not None:
                keys.span.data = _address(data, &num_bytes)
            low = key_offset(&keys.span, 0)
            high = key_offset(&keys.span, length)
            if low < 0 or high < low or high > num_bytes:
                raise ValueError("the offsets point outside the data")
            with nogil:
                falling = _decreases(&keys.span)
            if falling:
                raise ValueError("the offsets fall")
        keys._set_validity(validity, offset)
        return keys

    @staticmethod
    def views(views, buffers, Py_ssize_t length, Py_ssize_t offset=0, validity=None):
        """Create keys of Arrow's view types: 16 bytes each, which hold the key or its location in `buffers`.

        All views except those of nulls are checked.
        """
        cdef Keys keys = Keys.__new__(Keys)
        cdef Py_ssize_t num_bytes = 0
        if length < 0 or offset < 0:
            raise ValueError("length and offset must not be negative")
        keys.owners = (views, tuple(buffers), validity)
        keys.span.layout = VIEWS
        keys.span.offsets = NULL
        keys.span.width = 0
        keys.span.length = length
        keys.span.data = NULL
        if length:
            keys.span.data = _address(views, &num_bytes)
            if not _fits(offset, length, num_bytes // <Py_ssize_t>sizeof(View)):
                raise ValueError("the views do not fit in their buffer")
            keys.span.data += offset * <Py_ssize_t>sizeof(View)
        keys._set_validity(validity, offset)
        keys._set_buffers(keys.owners[1])
        return keys

    @staticmethod
    def hashed(const uint64_t[::1] hashes not None):
        """Create keys from their hashes alone (a uint64 array)."""
        cdef Keys keys = Keys.__new__(Keys)
        keys.owners = (hashes,)
        keys.span.layout = HASHES
        keys.span.offsets = NULL
        keys.span.width = 8
        keys.span.length = hashes.shape[0]
        keys.span.data = <const uint8_t*>&hashes[0] if hashes.shape[0] else NULL
        keys._set_validity(None, 0)
        return keys

    cdef _set_validity(self, validity, Py_ssize_t offset):
        cdef Py_ssize_t num_bytes = 0
        self.span.validity = NULL
        self.span.validity_offset = offset
        if validity is not None and self.span.length:
            self.span.validity = _address(validity, &num_bytes)
            if not _fits(offset, self.span.length, num_bytes * 8):
                raise ValueError("the validity bitmap is shorter than the keys")

    cdef _set_buffers(self, tuple buffers):
        cdef Py_ssize_t count = len(buffers)
        cdef Py_ssize_t* num_bytes = <Py_ssize_t*>PyMem_Malloc(max(1, count) * sizeof(Py_ssize_t))
        cdef Py_ssize_t i
        self.span.buffers = <const uint8_t**>PyMem_Malloc(max(1, count) * sizeof(uint8_t*))
        try:
            if num_bytes == NULL or self.span.buffers == NULL:
                raise MemoryError
            for i in range(count):
                self.span.buffers[i] = _address(buffers[i], &num_bytes[i])
            with nogil:
                i = _first_out_of_range(&self.span, num_bytes, count)
        finally:
            PyMem_Free(num_bytes)
        if i < self.span.length:
            raise ValueError(f"view {i} points outside of the data")
