# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
include "head.pxi"
include "primitives_simd.pxi"
include "kernels.pxi"
