"""Values of a page in other encodings than PLAIN, made plain, for other compiled modules."""

from .page_decode cimport PageBody


cdef int make_plain(PageBody* body, Py_ssize_t width) except -1 nogil
