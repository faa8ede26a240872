"""Paths of files as C strings, for other compiled modules."""

cdef int require_paths(list paths) except -1
cdef const char** make_path_strings(list paths) except NULL
