"""System calls on local files, without the interpreter; a doubt is a result, never an exception."""

from libc.stdint cimport int64_t, uint8_t

cdef extern from "local_files.h":
    bint pb_is_same(int descriptor, const char* path, const int64_t* identity) nogil
    bint pb_is_unwritten(int descriptor, const int64_t* identity) nogil
    bint pb_identify(int descriptor, int64_t* identity) nogil
    bint pb_describe_path(const char* path, int64_t* state) nogil
    int pb_open(const char* path) nogil
    bint pb_read_range(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    bint pb_read_at_once(int descriptor, uint8_t* to, int64_t length, int64_t offset) nogil
    void pb_close(int descriptor) nogil
