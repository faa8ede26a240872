"""Detect the instruction sets of the processor."""

cdef extern from *:
    """
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #define pb_supports(set) __builtin_cpu_supports(set)
    #else
    #define pb_supports(set) 0
    #endif

    #if defined(__aarch64__)
    #define pb_has_neon 1
    #else
    #define pb_has_neon 0
    #endif
    """
    int has_avx2 "pb_supports(\"avx2\")"
    int has_bmi2 "pb_supports(\"bmi2\")"
    int has_avx512f "pb_supports(\"avx512f\")"
    int has_avx512dq "pb_supports(\"avx512dq\")"
    int has_avx512vl "pb_supports(\"avx512vl\")"
    int has_avx512bw "pb_supports(\"avx512bw\")"
    int has_neon "pb_has_neon"


def instruction_sets():
    """Return the instruction sets with kernels that this processor supports, best first."""
    names = []
    if has_avx512f and has_avx512dq and has_avx512vl and has_avx512bw and has_bmi2:
        names.append("avx512")
    if has_avx2:
        names.append("avx2")
    if has_neon:
        names.append("neon")
    return names
