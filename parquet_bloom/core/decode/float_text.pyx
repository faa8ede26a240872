# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The shortest decimal text that reads back as a floating-point number, as Java (from 19 on) writes it.

Of decimals of equal length the closest one is taken, and of one digit those of two digits count as well.

Source: Raffaello Giulietti, "The Schubfach way to render doubles", 2021.
"""

from libc.math cimport isinf, isnan
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef enum:
    LEAST_POWER = -324
    NUM_POWERS = 617


# For each power of ten, 10 ** -k rounded up to 126 bits, in two halves of 63 bits.
cdef uint64_t powers[NUM_POWERS][2]


def _fill_powers():
    cdef object exponent, shift, power
    cdef int i
    for i in range(NUM_POWERS):
        exponent = -(LEAST_POWER + i)
        shift = (exponent * 913_124_641_741 >> 38) - 125
        if exponent >= 0:
            power = 10**exponent >> shift if shift >= 0 else 10**exponent << -shift
        else:
            power = (1 << -shift) // 10**-exponent
        power += 1
        powers[i][0], powers[i][1] = power >> 63, power & (1 << 63) - 1


_fill_powers()


cdef inline uint64_t multiply_high(uint64_t a, uint64_t b) noexcept nogil:
    """Return the upper 64 bits of a product."""
    cdef uint64_t a_low = <uint32_t>a, b_low = <uint32_t>b, a_high = a >> 32, b_high = b >> 32
    cdef uint64_t middle = a_high * b_low + (a_low * b_low >> 32)
    cdef uint64_t other = a_low * b_high + <uint32_t>middle
    return a_high * b_high + (middle >> 32) + (other >> 32)


cdef inline uint64_t multiply_power(const uint64_t* power, uint64_t factor) noexcept nogil:
    """Return a product without its lower bits, of which the last bit says if any was set."""
    cdef uint64_t most = (<uint64_t>1 << 63) - 1
    cdef uint64_t z = (power[0] * factor >> 1) + multiply_high(power[1], factor)
    cdef uint64_t w = multiply_high(power[0], factor) + (z >> 63)
    return w | ((z & most) + most >> 63)


cdef inline void set_decimal(uint64_t digits, int exponent, Shortest* out) noexcept nogil:
    while digits and digits % 10 == 0:
        digits //= 10
        exponent += 1
    out.digits, out.exponent = digits, exponent


cdef void find_decimal(int q, uint64_t c, bint narrow, int dropped, Shortest* out) noexcept nogil:
    """Find the shortest decimal for c * 2 ** q; below a power of two, numbers are closer (narrow)."""
    cdef uint64_t odd = c & 1, cb = c << 2, cbr = cb + 2, cbl
    cdef int k, h
    if narrow:
        cbl = cb - 1
        k = <int>(q * <int64_t>661_971_961_083 - <int64_t>274_743_187_321 >> 41)
    else:
        cbl = cb - 2
        k = <int>(q * <int64_t>661_971_961_083 >> 41)
    h = q + <int>(-k * <int64_t>913_124_641_741 >> 38) + 2
    cdef const uint64_t* power = powers[k - LEAST_POWER]
    cdef uint64_t vb = multiply_power(power, cb << h)
    cdef uint64_t vbl = multiply_power(power, cbl << h)
    cdef uint64_t vbr = multiply_power(power, cbr << h)
    cdef uint64_t s = vb >> 2, t = s + 1, tens
    cdef bint lower, upper
    if s >= 100:
        tens = s // 10 * 10
        lower = vbl + odd <= tens << 2
        upper = (tens + 10 << 2) + odd <= vbr
        if lower != upper:
            set_decimal(tens if lower else tens + 10, k, out)
            return
    lower = vbl + odd <= s << 2
    upper = (t << 2) + odd <= vbr
    if lower == upper:
        lower = vb < s + t << 1 or (vb == s + t << 1 and s & 1 == 0)
    set_decimal(s if lower else t, k + dropped, out)


cdef void find_shortest(double number, Shortest* out) noexcept nogil:
    """Find the decimal of a finite number."""
    cdef uint64_t bits
    memcpy(&bits, &number, 8)
    out.negative = bits >> 63
    out.digits, out.exponent = 0, 0
    cdef uint64_t t = bits & (<uint64_t>1 << 52) - 1
    cdef int biased = <int>(bits >> 52) & 0x7FF, shift = 1075 - biased
    if biased:
        t |= <uint64_t>1 << 52
        if 0 < shift < 53 and t >> shift << shift == t:
            set_decimal(t >> shift, 0, out)
        else:
            find_decimal(-shift, t, t == <uint64_t>1 << 52 and biased > 1, 0, out)
    elif t:
        # Of the least numbers, two digits take one more than these have.
        find_decimal(-1074, 10 * t if t < 3 else t, False, -1 if t < 3 else 0, out)


cdef void find_shortest_float(float number, Shortest* out) noexcept nogil:
    cdef uint32_t bits
    memcpy(&bits, &number, 4)
    out.negative = bits >> 31
    out.digits, out.exponent = 0, 0
    cdef uint64_t t = bits & 0x7FFFFF
    cdef int biased = (bits >> 23) & 0xFF, shift = 150 - biased
    if biased:
        t |= 0x800000
        if 0 < shift < 24 and t >> shift << shift == t:
            set_decimal(t >> shift, 0, out)
        else:
            find_decimal(-shift, t, t == 0x800000 and biased > 1, 0, out)
    elif t:
        find_decimal(-149, 10 * t if t < 8 else t, False, -1 if t < 8 else 0, out)


cdef int write_shortest(const Shortest* number, char* out) noexcept nogil:
    """Write a number: plain from 0.001 on and below 10 million, else with an exponent; return the count of bytes."""
    cdef char digits[20]
    cdef int count = 0, size = 0, i, point
    cdef uint64_t rest = number.digits
    while rest:
        digits[count] = c"0" + rest % 10
        rest //= 10
        count += 1
    if number.negative:
        out[0] = c"-"
        size = 1
    if count == 0:
        memcpy(out + size, b"0.0", 3)
        return size + 3
    point = count + number.exponent  # digits before the point
    cdef bint plain = -3 < point <= 7
    cdef int before = point if plain else 1
    if before <= 0:
        out[size] = c"0"
        out[size + 1] = c"."
        size += 2
        for i in range(-before):
            out[size] = c"0"
            size += 1
    for i in range(max(count, before + 1)):
        if i == before and before > 0:
            out[size] = c"."
            size += 1
        if i >= count and before <= 0:
            break
        out[size] = digits[count - 1 - i] if i < count else c"0"
        size += 1
    if plain:
        return size
    out[size] = c"E"
    size += 1
    cdef int exponent = point - 1
    if exponent < 0:
        out[size] = c"-"
        size += 1
        exponent = -exponent
    if exponent >= 100:
        out[size] = c"0" + exponent // 100
        size += 1
    if exponent >= 10:
        out[size] = c"0" + exponent // 10 % 10
        size += 1
    out[size] = c"0" + exponent % 10
    return size + 1


cdef inline int write_special(double number, char* out) noexcept nogil:
    if isnan(number):
        memcpy(out, b"NaN", 3)
        return 3
    if number < 0:
        memcpy(out, b"-Infinity", 9)
        return 9
    memcpy(out, b"Infinity", 8)
    return 8


cdef int write_double(double number, char* out) noexcept nogil:
    """Write a number into `LONGEST_FLOAT` bytes, and return how many it takes."""
    cdef Shortest shortest
    if isnan(number) or isinf(number):
        return write_special(number, out)
    find_shortest(number, &shortest)
    return write_shortest(&shortest, out)


cdef int write_float(float number, char* out) noexcept nogil:
    cdef Shortest shortest
    if isnan(number) or isinf(number):
        return write_special(number, out)
    find_shortest_float(number, &shortest)
    return write_shortest(&shortest, out)


def format_double(double number):
    """Return the text of a number: `1.0E10`, `0.001`, `NaN`, `-Infinity`."""
    cdef char text[LONGEST_FLOAT]
    return text[: write_double(number, text)].decode("ascii")


def format_float(float number):
    """Return the text of a number of 32 bits, which has fewer digits."""
    cdef char text[LONGEST_FLOAT]
    return text[: write_float(number, text)].decode("ascii")
