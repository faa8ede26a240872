# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
include "head.pxi"
include "primitives_base.pxi"
include "kernels.pxi"
