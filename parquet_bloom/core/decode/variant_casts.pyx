# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Cast the values of Variants as Spark's `variant_get` does.

What depends on the time zone of a session, or on the day that a query runs, is not guessed: `NEEDS_ZONE`.

Source: Spark 4.3, VariantGet.cast, Cast (its mode TRY) and SparkDateTimeUtils.
"""

from libc.math cimport ceil, floor, isinf, isnan
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport strtod, strtof
from libc.string cimport memcmp, memcpy, memset

from .float_text cimport Shortest, find_shortest
from .variant_cursor cimport (
    ARRAY,
    BAD_TEXT,
    BINARY,
    BOOLEAN,
    CAST_FAILS,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    MISSING,
    NEEDS_ZONE,
    NO_CAST,
    NONE,
    OBJECT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NANOS,
    TIMESTAMP_NTZ,
    TIMESTAMP_NTZ_NANOS,
    UUID,
    VARIANT_NULL,
    is_utf8,
    read_scalar,
    write_decimal_digits,
    write_json,
    write_plain,
)


cdef enum:
    MOST_KEPT = 800             # digits of a number, more than can matter for its rounding
    PER_SECOND = 1_000_000

cdef int64_t PER_DAY = 86_400_000_000


cdef struct Digits:             # a decimal: 0.DIGITS times ten to the power of `point`
    bint negative
    int count
    int64_t point
    char digits[MOST_KEPT]


cdef struct Slice:
    const uint8_t* data
    int64_t size


# Numbers in texts


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte <= 32 or byte == 127


cdef Slice trim(const uint8_t* data, int64_t size, bint as_java) noexcept nogil:
    """Drop white space and control characters of ASCII, as Spark does, or all but DEL, as Java does."""
    cdef Slice slice
    while size and is_blank(data[0]) and not (as_java and data[0] == 127):
        data += 1
        size -= 1
    while size and is_blank(data[size - 1]) and not (as_java and data[size - 1] == 127):
        size -= 1
    slice.data, slice.size = data, size
    return slice


cdef inline uint8_t lower(uint8_t byte) noexcept nogil:
    return byte + 32 if c"A" <= byte <= c"Z" else byte


cdef bint is_word(Slice text, const char* word, int64_t size) noexcept nogil:
    """Compare with a word of small letters, in either case."""
    cdef int64_t i
    if text.size != size:
        return False
    for i in range(size):
        if lower(text.data[i]) != <uint8_t>word[i]:
            return False
    return True


cdef bint parse_integer(Slice text, int64_t* out) noexcept nogil:
    cdef int64_t i = 0, result = 0
    cdef int digit
    cdef bint negative = text.size and text.data[0] == c"-"
    if text.size and (negative or text.data[0] == c"+"):
        i = 1
    if i == text.size:
        return False
    while i < text.size:
        digit = text.data[i] - c"0"
        if digit < 0 or digit > 9 or result < INT64_MIN // 10:
            return False
        if result * 10 < INT64_MIN + digit:
            return False
        result = result * 10 - digit
        i += 1
    if not negative and result == INT64_MIN:
        return False
    out[0] = result if negative else -result
    return True


cdef bint parse_exponent(Slice text, int64_t* at, int64_t* out) noexcept nogil:
    """Parse digits with or without a sign from a place on, which then is behind them; far ones become 2**40."""
    cdef int64_t i = at[0], exponent = 0
    cdef bint negative = False
    if i < text.size and (text.data[i] == c"-" or text.data[i] == c"+"):
        negative = text.data[i] == c"-"
        i += 1
    if i == text.size or not c"0" <= text.data[i] <= c"9":
        return False
    while i < text.size and c"0" <= text.data[i] <= c"9":
        exponent = min(exponent * 10 + text.data[i] - c"0", <int64_t>1 << 40)
        i += 1
    at[0], out[0] = i, -exponent if negative else exponent
    return True


cdef bint parse_digits(Slice text, bint with_suffix, Digits* out) noexcept nogil:
    """Parse a decimal number as Java's BigDecimal does, or Double with its suffixes."""
    cdef int64_t i = 0, exponent = 0
    cdef bint any_digit = False, after_point = False, any_more = False
    out.negative, out.count, out.point = False, 0, 0
    if text.size and (text.data[0] == c"-" or text.data[0] == c"+"):
        out.negative = text.data[0] == c"-"
        i = 1
    while i < text.size:
        if text.data[i] == c"." and not after_point:
            after_point = True
        elif c"0" <= text.data[i] <= c"9":
            any_digit = True
            if out.count == 0 and text.data[i] == c"0":
                out.point -= after_point
            else:
                out.point += not after_point
                if out.count < MOST_KEPT - 1:
                    out.digits[out.count] = text.data[i]
                    out.count += 1
                else:
                    any_more = any_more or text.data[i] != c"0"
        else:
            break
        i += 1
    if not any_digit:
        return False
    if any_more:  # tells a number that is a little more from one half way
        out.digits[out.count] = c"1"
        out.count += 1
    if i < text.size and (text.data[i] == c"e" or text.data[i] == c"E"):
        i += 1
        if not parse_exponent(text, &i, &exponent):
            return False
        if not with_suffix and not -INT32_MAX <= exponent <= INT32_MAX:
            return False
        out.point += exponent
    if with_suffix and i < text.size and lower(text.data[i]) in (c"d", c"f"):
        i += 1
    while out.count and out.digits[out.count - 1] == c"0":
        out.count -= 1
    return i == text.size


cdef double digits_to_double(const Digits* digits, bint narrow) noexcept nogil:
    """Return the closest number, of 32 bits if `narrow`. The text has no point: which one C reads is a setting."""
    cdef char text[MOST_KEPT + 32]
    cdef int size = digits.count, i, count = 0
    cdef int64_t exponent = digits.point - digits.count
    cdef char reversed[24]
    cdef double number
    if size == 0 or digits.point < -400:
        number = 0.0
    else:
        memcpy(text, digits.digits, size)
        text[size] = c"e"
        text[size + 1] = c"-" if exponent < 0 else c"+"
        size += 2
        exponent = min(-exponent if exponent < 0 else exponent, <int64_t>100_000)
        while exponent or not count:
            reversed[count] = c"0" + exponent % 10
            exponent //= 10
            count += 1
        for i in range(count):
            text[size + i] = reversed[count - 1 - i]
        text[size + count] = 0
        number = strtof(text, NULL) if narrow else strtod(text, NULL)
    return -number if digits.negative else number


cdef bint parse_hexadecimal(Slice text, bint narrow, double* out) noexcept nogil:
    """Parse a hexadecimal number of Java: `0x1.8p3`."""
    cdef char copy[256]
    cdef int64_t i = 0, power = 0, dropped = 0
    cdef int size = 0, count = 0
    cdef bint negative = False, after_point = False, any_digit = False
    cdef uint8_t byte
    if text.size and (text.data[0] == c"-" or text.data[0] == c"+"):
        negative = text.data[0] == c"-"
        i = 1
    if text.size - i < 2 or text.data[i] != c"0" or lower(text.data[i + 1]) != c"x":
        return False
    memcpy(copy, b"0x", 2)
    size = 2
    i += 2
    while i < text.size:
        byte = lower(text.data[i])
        if byte == c"." and not after_point:
            after_point = True
        elif c"0" <= byte <= c"9" or c"a" <= byte <= c"f":
            any_digit = True
            if size == 2 and byte == c"0":
                dropped -= 4 * after_point
            elif size < 200:
                copy[size] = byte
                size += 1
                dropped -= 4 * after_point
            else:
                if byte != c"0":
                    copy[199] = c"1" if copy[199] == c"0" else copy[199]
                dropped += 4 * (not after_point)
        else:
            break
        i += 1
    if not any_digit or i == text.size or lower(text.data[i]) != c"p":
        return False
    i += 1
    if not parse_exponent(text, &i, &power):
        return False
    if i < text.size and lower(text.data[i]) in (c"d", c"f"):
        i += 1
    if i != text.size:
        return False
    power += dropped
    if size == 2:
        copy[size] = c"0"
        size += 1
    copy[size] = c"p"
    copy[size + 1] = c"-" if power < 0 else c"+"
    size += 2
    power = min(-power if power < 0 else power, <int64_t>99_999)
    for count in range(5):
        copy[size + 4 - count] = c"0" + power % 10
        power //= 10
    copy[size + 5] = 0
    out[0] = strtof(copy, NULL) if narrow else strtod(copy, NULL)
    if negative:
        out[0] = -out[0]
    return True


cdef bint parse_float(Slice text, bint narrow, double* out) noexcept nogil:
    cdef Digits digits
    cdef Slice unsigned = trim(text.data, text.size, True)
    cdef double huge = 1e308
    text = unsigned
    if parse_digits(text, True, &digits):
        out[0] = digits_to_double(&digits, narrow)
        return True
    if parse_hexadecimal(text, narrow, out):
        return True
    if unsigned.size and (unsigned.data[0] == c"-" or unsigned.data[0] == c"+"):
        unsigned.data += 1
        unsigned.size -= 1
    if is_word(unsigned, b"inf", 3) or is_word(unsigned, b"infinity", 8):
        out[0] = -(huge * 10) if text.data[0] == c"-" else huge * 10
        return True
    # Java takes a sign before NaN written so, and Spark none before other spellings.
    if is_word(unsigned, b"nan", 3) and (text.size == 3 or memcmp(unsigned.data, b"NaN", 3) == 0):
        out[0] = huge * 10 - huge * 10
        return True
    return False


# Decimals


cdef void digits_of_decimal(const Scalar* decimal, Digits* out) noexcept nogil:
    out.count = write_decimal_digits(decimal, out.digits)
    out.negative = decimal.high < 0
    out.point = out.count - decimal.scale


cdef void digits_of_integer(uint64_t number, int exponent, bint negative, Digits* out) noexcept nogil:
    cdef char reversed[20]
    cdef int i, count = 0
    while number:
        reversed[count] = c"0" + number % 10
        number //= 10
        count += 1
    for i in range(count):
        out.digits[i] = reversed[count - 1 - i]
    out.count, out.negative, out.point = count, negative, count + exponent


cdef Fault round_digits(const Digits* digits, int precision, int scale, bint half_up, uint64_t* out) noexcept nogil:
    """Round to a scale, and write a number of 128 bits, lower half first; fail if it has more digits than `precision`."""
    cdef uint64_t limbs[4]
    cdef uint64_t carry, low, high
    cdef int64_t kept = digits.point + scale, i
    cdef int limb
    memset(limbs, 0, sizeof(limbs))
    if digits.count and kept > precision:
        return CAST_FAILS
    for i in range(kept if digits.count else 0):
        carry = digits.digits[i] - c"0" if i < digits.count else 0
        for limb in range(4):
            carry += limbs[limb] * 10
            limbs[limb] = <uint32_t>carry
            carry >>= 32
    if half_up and 0 <= kept < digits.count and digits.digits[kept] >= c"5":
        carry = 1
        for limb in range(4):
            carry += limbs[limb]
            limbs[limb] = <uint32_t>carry
            carry >>= 32
    low, high = limbs[0] | limbs[1] << 32, limbs[2] | limbs[3] << 32
    if not is_below_power(low, high, precision):
        return CAST_FAILS
    if digits.negative:
        low = 0 - low
        high = ~high + (low == 0)
    out[0], out[1] = low, high
    return NONE


cdef bint is_below_power(uint64_t low, uint64_t high, int precision) noexcept nogil:
    cdef uint64_t limbs[4]
    cdef uint64_t carry, power_low, power_high
    cdef int i, limb
    limbs[0], limbs[1], limbs[2], limbs[3] = 1, 0, 0, 0
    for i in range(precision):
        carry = 0
        for limb in range(4):
            carry += limbs[limb] * 10
            limbs[limb] = <uint32_t>carry
            carry >>= 32
    power_low, power_high = limbs[0] | limbs[1] << 32, limbs[2] | limbs[3] << 32
    return high < power_high or high == power_high and low < power_low


cdef Fault digits_to_integer(const Digits* digits, int64_t* out) noexcept nogil:
    """Drop what is behind the point; fail if the rest does not fit into 64 bits."""
    cdef uint64_t parts[2]
    cdef Fault fault = round_digits(digits, 19, 0, False, parts)
    if fault:
        return fault
    if <int64_t>parts[1] != (-1 if <int64_t>parts[0] < 0 else 0):
        return CAST_FAILS
    out[0] = <int64_t>parts[0]
    return NONE


cdef Fault double_to_integer(double number, int bits, int64_t* out) noexcept nogil:
    """Drop what is behind the point, as Java does; fail if the rest does not fit."""
    cdef double limit = 9223372036854775808.0 if bits == 64 else 2147483648.0
    if bits == 64:
        # Java compares with the closest number of this type, and then takes the greatest.
        if not (floor(number) <= limit and ceil(number) >= -limit):
            return CAST_FAILS
        out[0] = INT64_MAX if number >= limit else <int64_t>number
        return NONE
    if not (floor(number) <= limit - 1 and ceil(number) >= -limit):
        return CAST_FAILS
    out[0] = <int64_t>number
    return NONE


cdef inline int64_t floor_divide(int64_t number, int64_t by) noexcept nogil:
    return number // by - (number % by < 0)


# Dates and times in texts


cdef bint days_from_date(int64_t year, int64_t month, int64_t day, int64_t* out) noexcept nogil:
    """Return days since 1970, of a date that exists."""
    cdef int64_t shifted, era, year_of_era, day_of_year
    cdef bint leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if month < 1 or month > 12 or day < 1:
        return False
    if day > (28 + leap if month == 2 else 30 if month in (4, 6, 9, 11) else 31):
        return False
    shifted = year - (month <= 2)
    era = floor_divide(shifted, 400)
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    out[0] = era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
    return True


cdef Fault parse_date(Slice text, int64_t* out) noexcept nogil:
    """Parse `[+-]yyyy[-m[m][-d[d]]]`; after a day, all that follows a blank or T is ignored."""
    cdef int64_t parts[3]
    cdef int64_t i = 0, value = 0
    cdef int part = 0, count = 0
    cdef int64_t sign = 1
    cdef uint8_t byte
    parts[0], parts[1], parts[2] = 1, 1, 1
    if text.size == 0:
        return CAST_FAILS
    if text.data[0] == c"-" or text.data[0] == c"+":
        sign = -1 if text.data[0] == c"-" else 1
        i = 1
    while i < text.size and text.data[i] != c" " and text.data[i] != c"T":
        byte = text.data[i]
        if part < 2 and byte == c"-":
            if not (4 <= count <= 7 if part == 0 else 1 <= count <= 2):
                return CAST_FAILS
            parts[part] = value
            value, count = 0, 0
            part += 1
        elif c"0" <= byte <= c"9" and count < 8:
            value = value * 10 + byte - c"0"
            count += 1
        else:
            return CAST_FAILS
        i += 1
    if not (4 <= count <= 7 if part == 0 else 1 <= count <= 2) or part < 2 and i < text.size:
        return CAST_FAILS
    parts[part] = value
    if not days_from_date(sign * parts[0], parts[1], parts[2], out):
        return CAST_FAILS
    # Of LocalDate, which then has to fit into an int.
    return NONE if -(<int64_t>1 << 31) <= out[0] < <int64_t>1 << 31 else CAST_FAILS


cdef struct Stamp:
    int64_t seconds         # since 1970, on the clock
    int64_t micros
    bint is_today           # it has no date
    bint has_zone
    int64_t offset          # of the zone, in seconds


cdef Fault parse_zone(Slice text, int64_t* offset) noexcept nogil:
    """Parse an offset in Java's forms, after UTC, GMT or UT, or alone; names of zones are not known here."""
    cdef int64_t parts[3]
    cdef int64_t i = 0
    cdef int part, count
    cdef bint negative, with_colon
    text = trim(text.data, text.size, True)
    if text.size >= 3 and (memcmp(text.data, b"UTC", 3) == 0 or memcmp(text.data, b"GMT", 3) == 0):
        i = 3
    elif text.size >= 2 and memcmp(text.data, b"UT", 2) == 0:
        i = 2
    offset[0] = 0
    if i and i == text.size or text.size == 1 and text.data[0] == c"Z":
        return NONE
    if i == text.size or text.data[i] != c"-" and text.data[i] != c"+":
        return may_name_zone(text)
    negative = text.data[i] == c"-"
    i += 1
    parts[0], parts[1], parts[2] = 0, 0, 0
    with_colon = False
    # [h]h, [h]h:[m]m, hh:mm:ss, hhmm or hhmmss
    for part in range(3):
        count = 0
        while count < 2 and i < text.size and c"0" <= text.data[i] <= c"9":
            parts[part] = parts[part] * 10 + text.data[i] - c"0"
            count += 1
            i += 1
        if count == 0:
            return CAST_FAILS
        if i == text.size:
            if count == 1 and part and not (with_colon and part == 1):
                return CAST_FAILS
            break
        if part == 0:
            with_colon = text.data[i] == c":"
        if count == 1 and not (with_colon and part == 0) or part == 2:
            return CAST_FAILS
        if with_colon:
            if text.data[i] != c":":
                return CAST_FAILS
            i += 1
    offset[0] = parts[0] * 3600 + parts[1] * 60 + parts[2]
    if parts[1] > 59 or parts[2] > 59 or offset[0] > 18 * 3600:
        return CAST_FAILS
    if negative:
        offset[0] = -offset[0]
    return NONE


cdef Fault may_name_zone(Slice text) noexcept nogil:
    cdef int64_t i
    cdef uint8_t byte
    for i in range(text.size):
        byte = lower(text.data[i])
        if c"a" <= byte <= c"z" or i and (c"0" <= byte <= c"9" or byte in (c"~", c"/", c".", c"_", c"+", c"-")):
            continue
        return CAST_FAILS
    return NEEDS_ZONE if text.size > 1 else CAST_FAILS


cdef inline bint is_count(int part, int count) noexcept nogil:
    return part == 6 or (4 <= count <= 6 if part == 0 else 1 <= count <= 2)


cdef Fault parse_timestamp(Slice text, Stamp* out) noexcept nogil:
    """Parse `[+-]yyyy[-m[m][-d[d][( |T)h[h]:m[m]:s[s][.f*]][zone]]]`, or `[T]h[h]:...`, a time of today."""
    cdef int64_t parts[7]
    cdef int64_t i = 0, value = 0, sign = 1, days = 0
    cdef int part = 0, count = 0, fraction = 0
    cdef uint8_t byte
    cdef bint signed = False
    cdef Slice zone
    cdef Fault fault = NONE
    out.is_today, out.has_zone, out.offset = False, False, 0
    zone.size = 0
    parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6] = 1, 1, 1, 0, 0, 0, 0
    if text.size == 0:
        return CAST_FAILS
    if text.data[0] == c"-" or text.data[0] == c"+":
        sign = -1 if text.data[0] == c"-" else 1
        signed = True
        i = 1
    while i < text.size:
        byte = text.data[i]
        if c"0" <= byte <= c"9":
            if part == 6:
                fraction += 1
                fraction = min(fraction, 7)
            if part != 6 or count < 6:
                value = value * 10 + byte - c"0"
            count += 1
            if count > 1000:
                count = 1000
            if part != 6 and count > 6:
                return CAST_FAILS
        elif i == 0 and byte == c"T":
            out.is_today = True
            part = 3
        elif part == 0 and byte == c":" and not signed:
            if not 1 <= count <= 2:
                return CAST_FAILS
            out.is_today = True
            parts[3] = value
            value, count = 0, 0
            part = 4
        elif part < 2 and byte == c"-" or part == 2 and (byte == c" " or byte == c"T") or 3 <= part <= 4 and byte == c":" or part == 5 and byte == c".":
            if not is_count(part, count):
                return CAST_FAILS
            parts[part] = value
            value, count = 0, 0
            part += 1
        elif part >= 5:
            if not is_count(part, count):
                return CAST_FAILS
            zone.data, zone.size = text.data + i, text.size - i
            break
        else:
            return CAST_FAILS
        i += 1
    if not is_count(part, count):
        return CAST_FAILS
    parts[part] = value
    while fraction < 6:
        parts[6] *= 10
        fraction += 1
    if zone.size:
        out.has_zone = True
        fault = parse_zone(zone, &out.offset)
    if parts[3] > 23 or parts[4] > 59 or parts[5] > 59:
        return CAST_FAILS
    if not out.is_today and not days_from_date(sign * parts[0], parts[1], parts[2], &days):
        return CAST_FAILS
    out.seconds = days * 86_400 + (parts[3] * 60 + parts[4]) * 60 + parts[5]
    out.micros = parts[6]
    return fault


cdef Fault join_micros(int64_t seconds, int64_t micros, int64_t* out) noexcept nogil:
    """Return a time in microseconds, if it fits: years of six digits do not at both ends."""
    cdef int64_t most = INT64_MAX // PER_SECOND
    if seconds > most or seconds == most and micros > INT64_MAX % PER_SECOND:
        return CAST_FAILS
    if seconds < 0:
        seconds += 1
        micros -= PER_SECOND
    if seconds < -most or seconds == -most and micros < -(INT64_MAX % PER_SECOND) - 1:
        return CAST_FAILS
    out[0] = seconds * PER_SECOND + micros
    return NONE


# Casts


cdef Fault to_boolean(const Scalar* scalar, int64_t* out) noexcept nogil:
    cdef Slice text
    if scalar.type == BOOLEAN or scalar.type == INTEGER:
        out[0] = scalar.number != 0
    elif scalar.type == DOUBLE or scalar.type == FLOAT:
        out[0] = scalar.real != 0
    elif scalar.type == DECIMAL:
        out[0] = scalar.number != 0 or scalar.high != 0
    elif scalar.type == STRING:
        text = trim(scalar.data, scalar.size, False)
        if (
            is_word(text, b"t", 1) or is_word(text, b"true", 4) or is_word(text, b"y", 1) or is_word(text, b"yes", 3)
            or is_word(text, b"1", 1)
        ):
            out[0] = 1
        elif (
            is_word(text, b"f", 1) or is_word(text, b"false", 5) or is_word(text, b"n", 1) or is_word(text, b"no", 2)
            or is_word(text, b"0", 1)
        ):
            out[0] = 0
        else:
            return CAST_FAILS
    else:
        return CAST_FAILS
    return NONE


cdef Fault to_integer(const Scalar* scalar, int bits, int64_t* out) noexcept nogil:
    cdef Digits digits
    cdef int64_t most
    cdef Fault fault = NONE
    if scalar.type == BOOLEAN or scalar.type == INTEGER:
        out[0] = scalar.number
    elif scalar.type == STRING:
        if not parse_integer(trim(scalar.data, scalar.size, False), out):
            return CAST_FAILS
    elif scalar.type == DOUBLE or scalar.type == FLOAT:
        fault = double_to_integer(scalar.real, bits, out)
    elif scalar.type == DECIMAL:
        digits_of_decimal(scalar, &digits)
        if bits == 64:
            fault = digits_to_integer(&digits, out)
        else:
            fault = double_to_integer(digits_to_double(&digits, False), bits, out)
    elif scalar.type == TIMESTAMP:
        out[0] = floor_divide(scalar.number, PER_SECOND)
    else:
        return CAST_FAILS
    if fault:
        return fault
    most = INT64_MAX >> (64 - bits)
    return NONE if -most - 1 <= out[0] <= most else CAST_FAILS


cdef Fault to_float(const Scalar* scalar, bint narrow, double* out) noexcept nogil:
    cdef Digits digits
    if scalar.type == BOOLEAN or scalar.type == INTEGER:
        out[0] = <float>scalar.number if narrow else <double>scalar.number
    elif scalar.type == DOUBLE or scalar.type == FLOAT:
        out[0] = scalar.real
    elif scalar.type == DECIMAL:
        digits_of_decimal(scalar, &digits)
        out[0] = digits_to_double(&digits, narrow)
    elif scalar.type == STRING:
        if not parse_float(trim(scalar.data, scalar.size, True), narrow, out):
            return CAST_FAILS
    elif scalar.type == TIMESTAMP:
        out[0] = <double>scalar.number / PER_SECOND
    else:
        return CAST_FAILS
    return NONE


cdef Fault to_decimal(const Scalar* scalar, int precision, int scale, uint64_t* out) noexcept nogil:
    cdef Digits digits
    cdef Shortest shortest
    cdef uint64_t magnitude
    if scalar.type == BOOLEAN or scalar.type == INTEGER or scalar.type == TIMESTAMP:
        magnitude = 0 - <uint64_t>scalar.number if scalar.number < 0 else <uint64_t>scalar.number
        digits_of_integer(magnitude, -6 if scalar.type == TIMESTAMP else 0, scalar.number < 0, &digits)
    elif scalar.type == DOUBLE or scalar.type == FLOAT:
        if isnan(scalar.real) or isinf(scalar.real):
            return CAST_FAILS
        find_shortest(scalar.real, &shortest)
        digits_of_integer(shortest.digits, shortest.exponent, shortest.negative, &digits)
    elif scalar.type == DECIMAL:
        digits_of_decimal(scalar, &digits)
    elif scalar.type == STRING:
        if not parse_digits(trim(scalar.data, scalar.size, True), False, &digits):
            return CAST_FAILS
    else:
        return CAST_FAILS
    return round_digits(&digits, precision, scale, True, out)


cdef Fault to_date(const Scalar* scalar, int64_t* out) noexcept nogil:
    if scalar.type == DATE:
        out[0] = scalar.number
    elif scalar.type == TIMESTAMP_NTZ:
        out[0] = floor_divide(scalar.number, PER_DAY)
    elif scalar.type == STRING:
        return parse_date(trim(scalar.data, scalar.size, False), out)
    else:
        return NEEDS_ZONE if scalar.type == TIMESTAMP else CAST_FAILS
    return NONE


cdef Fault to_timestamp(const Scalar* scalar, int64_t* out) noexcept nogil:
    cdef Digits digits
    cdef Stamp stamp
    cdef Fault fault
    cdef double number
    if scalar.type == TIMESTAMP:
        out[0] = scalar.number
    elif scalar.type == INTEGER:
        if scalar.number > INT64_MAX // PER_SECOND or scalar.number < -(INT64_MAX // PER_SECOND):
            return CAST_FAILS
        out[0] = scalar.number * PER_SECOND
    elif scalar.type == DECIMAL:
        digits_of_decimal(scalar, &digits)
        digits.point += 6
        return digits_to_integer(&digits, out)
    elif scalar.type == DOUBLE or scalar.type == FLOAT:
        number = scalar.real * PER_SECOND
        return double_to_integer(number, 64, out)
    elif scalar.type == STRING:
        fault = parse_timestamp(trim(scalar.data, scalar.size, False), &stamp)
        if fault:
            return fault
        if stamp.is_today or not stamp.has_zone:
            return NEEDS_ZONE
        return join_micros(stamp.seconds - stamp.offset, stamp.micros, out)
    elif scalar.type == DATE or scalar.type == TIMESTAMP_NTZ:
        return NEEDS_ZONE
    else:
        return CAST_FAILS
    return NONE


cdef Fault to_timestamp_ntz(const Scalar* scalar, int64_t* out) noexcept nogil:
    cdef Stamp stamp
    cdef Fault fault
    if scalar.type == TIMESTAMP_NTZ:
        out[0] = scalar.number
    elif scalar.type == DATE:
        if scalar.number > INT64_MAX // PER_DAY or scalar.number < -(INT64_MAX // PER_DAY):
            return CAST_FAILS
        out[0] = scalar.number * PER_DAY
    elif scalar.type == STRING:
        fault = parse_timestamp(trim(scalar.data, scalar.size, False), &stamp)
        if stamp.is_today:
            return CAST_FAILS
        return fault if fault else join_micros(stamp.seconds, stamp.micros, out)
    else:
        return NEEDS_ZONE if scalar.type == TIMESTAMP else CAST_FAILS
    return NONE


cdef Fault to_text(Row* row, const Spot* spot, const Scalar* scalar, Text* out) noexcept nogil:
    if scalar.type == OBJECT or scalar.type == ARRAY:
        return write_json(row, spot, out, 0)
    if scalar.type in (STRING, BINARY) and not is_utf8(scalar.data, scalar.size):
        return BAD_TEXT if scalar.type == STRING else NO_CAST
    return write_plain(row, scalar, out)


cdef Fault cast_spot(Row* row, const Spot* spot, const Target* target, uint8_t* out, Text* text, bint* is_null) noexcept nogil:
    """Cast a value into `out`, or append it to `text`; null if it is missing or a Variant null."""
    cdef Scalar scalar
    cdef int64_t number = 0
    cdef uint64_t parts[2]
    cdef double real = 0
    cdef float narrow
    cdef Fault fault = read_scalar(row, spot, &scalar)
    if fault:
        return fault
    is_null[0] = scalar.type == MISSING or scalar.type == VARIANT_NULL
    if is_null[0]:
        return NONE
    if target.type == STRING:
        return to_text(row, spot, &scalar, text)
    if target.type == BINARY:
        if scalar.type == BINARY or scalar.type == STRING:
            return write_plain(row, &scalar, text)
        return CAST_FAILS
    if target.type == FLOAT or target.type == DOUBLE:
        fault = to_float(&scalar, target.type == FLOAT, &real)
        if target.type == FLOAT:
            narrow = <float>real
            memcpy(out, &narrow, 4)
        else:
            memcpy(out, &real, 8)
        return fault
    if target.type == DECIMAL:
        fault = to_decimal(&scalar, target.precision, target.scale, parts)
        if not fault:
            memcpy(out, parts, 16)
        return fault
    if target.type == INTEGER:
        fault = to_integer(&scalar, target.bits, &number)
    elif target.type == BOOLEAN:
        fault = to_boolean(&scalar, &number)
    elif target.type == DATE:
        fault = to_date(&scalar, &number)
    elif target.type == TIMESTAMP:
        fault = to_timestamp(&scalar, &number)
    elif target.type == TIMESTAMP_NTZ:
        fault = to_timestamp_ntz(&scalar, &number)
    elif scalar.type != target.type:
        # Spark has no casts to these, and no time or UUID in Variants.
        fault = NO_CAST if scalar.type in (STRING, TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS) else CAST_FAILS
    elif target.type == UUID:
        memcpy(out, scalar.data, 16)
        return NONE
    else:
        number = scalar.number
    if fault == CAST_FAILS and scalar.type in (TIME, UUID, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS) and scalar.type != target.type:
        fault = NO_CAST
    if not fault:
        memcpy(out, &number, target.width)
    return fault
