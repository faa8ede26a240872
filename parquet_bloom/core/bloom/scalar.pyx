"""Hash one Python value as it is stored, for the common types: see `scalar.pxd`."""

from libc.stdint cimport int64_t, uint64_t


cdef class ScalarHasher:
    """Hashes single values of one stored type; one made by the constructor leaves every value to the caller."""

    def __cinit__(self):
        self.expected.form = NO_FORM

    @staticmethod
    def integers(int width, int64_t low, uint64_t high):
        """Return the hasher of ints from `low` to `high`, of 4 or 8 bytes each; no other number equals one."""
        if width not in (4, 8):
            raise ValueError(f"integers have 4 or 8 bytes, not {width}")
        cdef ScalarHasher hasher = ScalarHasher()
        hasher.expected = Scalars(INTEGERS, width, low, high, False, False)
        return hasher

    @staticmethod
    def floats(int width):
        """Return the hasher of floats of 4 or 8 bytes; others are rounded to the nearest, a zero means both zeros."""
        if width not in (4, 8):
            raise ValueError(f"floats have 4 or 8 bytes, not {width}")
        cdef ScalarHasher hasher = ScalarHasher()
        hasher.expected = Scalars(FLOATS, width, 0, 0, False, False)
        return hasher

    @staticmethod
    def strings(Py_ssize_t width, bint texts, bint backslashes):
        """Return the hasher of bytes, of length `width` unless that is negative.

        If `texts`, a str means its UTF-8 encoding; one with a backslash only if `backslashes`.
        """
        cdef ScalarHasher hasher = ScalarHasher()
        hasher.expected = Scalars(STRINGS, width, 0, 0, texts, backslashes)
        return hasher

    def hash(self, value):
        """Return the only hash of a value; None if it has none, or several, or is left to the caller."""
        cdef uint64_t* hashes = [0, 0]
        return hashes[0] if hash_scalar(&self.expected, value, hashes) == HASHED else None
