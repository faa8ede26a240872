"""The hybrid of repeated and bit-packed numbers, read run by run without the interpreter lock.

Source: Encodings.md of the format, "RLE / bit-packing hybrid". Nothing here trusts the bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum RunError:
    ENDS_EARLY = -1
    EMPTY_RUN = -2
    CUT_OFF = -3
    TOO_WIDE = -4


cdef struct Runs:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end
    int width
    # The run whose header ends at `pos`:
    bint packed
    bint cut             # packed, with fewer numbers than its header says
    Py_ssize_t start     # of its bytes
    Py_ssize_t length    # numbers in the run
    uint32_t value       # that it repeats


cdef inline void start_runs(Runs* runs, const uint8_t* data, Py_ssize_t size, int width) noexcept nogil:
    """Prepare to read numbers of `width` bits: 0 to 32."""
    runs.data = data
    runs.pos = 0
    runs.end = size
    runs.width = width
    runs.packed = runs.cut = False
    runs.start = runs.length = 0
    runs.value = 0


cdef inline int next_run(Runs* runs) noexcept nogil:
    """Go to the next run; return 0, or a `RunError`."""
    cdef uint64_t header = 0, value = 0
    cdef int shift = 0, i
    cdef int value_bytes = (runs.width + 7) // 8
    while True:
        if runs.pos >= runs.end or shift > 35:
            return ENDS_EARLY
        header |= <uint64_t>(runs.data[runs.pos] & 0x7F) << shift
        shift += 7
        runs.pos += 1
        if runs.data[runs.pos - 1] < 0x80:
            break
    if header >> 1 == 0:
        return EMPTY_RUN
    runs.packed, runs.cut = header & 1, False
    runs.start = runs.pos
    runs.length = header >> 1
    if runs.packed:
        runs.length *= 8
        if runs.length * runs.width > (runs.end - runs.pos) * 8:  # some writers leave out what pads the last run
            runs.length = (runs.end - runs.pos) * 8 // runs.width
            runs.pos, runs.cut = runs.end, True
        else:
            runs.pos += runs.length // 8 * runs.width
        return 0
    if value_bytes > runs.end - runs.pos:
        return CUT_OFF
    for i in range(value_bytes):
        value |= <uint64_t>runs.data[runs.pos + i] << (8 * i)
    runs.pos += value_bytes
    if value >> runs.width:
        return TOO_WIDE
    runs.value = <uint32_t>value
    return 0


cdef inline uint32_t packed_number(const Runs* runs, Py_ssize_t number) noexcept nogil:
    """Return number `i` of a bit-packed run, counted from 0: less than `length`."""
    cdef Py_ssize_t bit = number * runs.width
    cdef Py_ssize_t last = runs.start + (bit + runs.width - 1) // 8
    cdef Py_ssize_t at = runs.start + bit // 8
    cdef uint64_t bits = 0
    cdef int shift = 0
    while at <= last:
        bits |= <uint64_t>runs.data[at] << shift
        shift += 8
        at += 1
    return <uint32_t>((bits >> (bit & 7)) & (((<uint64_t>1) << runs.width) - 1))


cdef inline Py_ssize_t count_set(const Runs* runs, Py_ssize_t first, Py_ssize_t end) noexcept nogil:
    """Count the bits of a run of one-bit numbers that are set in [first, end)."""
    cdef Py_ssize_t total = 0, i
    if not runs.packed:
        return end - first if runs.value else 0
    for i in range(first, end):
        total += (runs.data[runs.start + i // 8] >> (i % 8)) & 1
    return total


cdef inline Py_ssize_t locate_values(
    Runs* runs, const int64_t* rows, Py_ssize_t num_rows, uint8_t* has_value, int64_t* numbers
) noexcept nogil:
    """Find the values of some rows by levels of one bit: whether each row has one, and its number among all values.

    Parameters
    ----------
    rows : ascending.
    has_value, numbers : take a flag for each row, and the numbers of those that have a value.

    Returns
    -------
    How many have a value, or a `RunError`.
    """
    cdef Py_ssize_t i, row, seen = 0, value = 0  # rows processed, and the number of values among them
    cdef Py_ssize_t before = 0, count = 0  # rows in front of the run
    cdef int problem
    for i in range(num_rows):
        while rows[i] >= before + runs.length:
            value += count_set(runs, seen - before, runs.length)
            before += runs.length
            seen = before
            problem = next_run(runs)
            if problem:
                return problem
        row = rows[i]
        value += count_set(runs, seen - before, row - before)
        seen = row
        has_value[i] = (packed_number(runs, row - before) if runs.packed else runs.value) != 0
        if has_value[i]:
            numbers[count] = value
            count += 1
    return count


cdef inline int take_numbers(Runs* runs, const int64_t* positions, Py_ssize_t count, int64_t* out) noexcept nogil:
    """Decode the numbers at some positions, which ascend; return 0, or a `RunError`. `out` may be `positions`."""
    cdef Py_ssize_t i, before = 0  # numbers in front of the run
    cdef int64_t position
    cdef int problem
    for i in range(count):
        position = positions[i]
        while position >= before + runs.length:
            before += runs.length
            problem = next_run(runs)
            if problem:
                return problem
        out[i] = packed_number(runs, position - before) if runs.packed else runs.value
    return 0


cdef inline int require_repeated(const uint8_t* data, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    """Return 0 if there are runs of `count` numbers of no bits, each of them repeated; else a `RunError`."""
    cdef Runs runs
    cdef int problem = 0
    start_runs(&runs, data, size, 0)
    while count > 0 and problem == 0:
        problem = next_run(&runs)
        if problem == 0 and runs.packed:
            problem = EMPTY_RUN
        count -= runs.length
    return problem


cdef inline str describe_problem(int problem, int width):
    """Describe a `RunError`."""
    if problem == ENDS_EARLY:
        return "it ends before its numbers do"
    if problem == EMPTY_RUN:
        return "a run of no numbers"
    if problem == CUT_OFF:
        return "a run is cut off"
    return f"a number has more than {width} bits"
