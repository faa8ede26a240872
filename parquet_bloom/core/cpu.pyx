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

    #if defined(__aarch64__) && defined(__linux__)
    #include <stdint.h>
    #include <sys/auxv.h>

    /* Arm's Neoverse N1, which begins a product of 64 bits every third cycle, by LLVM's model of it. */
    static int pb_multiplies_slowly(void) {
        const unsigned long tells_its_name = 1UL << 11; /* HWCAP_CPUID: the kernel lets programs read the register */
        uint64_t name;
        if (!(getauxval(AT_HWCAP) & tells_its_name)) return 0;
        __asm__("mrs %0, MIDR_EL1" : "=r"(name));
        const uint64_t implementer = name >> 24 & 0xFF, part = name >> 4 & 0xFFF;
        return implementer == 0x41 && part == 0xD0C;
    }
    #else
    #define pb_multiplies_slowly() 0
    #endif
    """
    int has_sse41 "pb_supports(\"sse4.1\")"
    int has_avx2 "pb_supports(\"avx2\")"
    int has_bmi2 "pb_supports(\"bmi2\")"
    int has_avx512f "pb_supports(\"avx512f\")"
    int has_avx512dq "pb_supports(\"avx512dq\")"
    int has_avx512vl "pb_supports(\"avx512vl\")"
    int has_avx512bw "pb_supports(\"avx512bw\")"
    int has_neon "pb_has_neon"
    int multiplies_slowly "pb_multiplies_slowly()"


def instruction_sets():
    """Return the instruction sets with kernels that this processor supports, best first."""
    names = []
    if has_avx512f and has_avx512dq and has_avx512vl and has_avx512bw and has_bmi2:
        names.append("avx512")
    if has_avx2:
        names.append("avx2")
    if has_sse41:
        names.append("sse41")
    if has_neon:
        names += ["neon_hash", "neon"] if multiplies_slowly else ["neon", "neon_hash"]
    return names
