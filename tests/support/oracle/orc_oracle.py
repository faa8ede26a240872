"""ORC's filters in plain Python: slow, and obviously what the specification and its writers do."""

import struct

MASK = (1 << 64) - 1


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def wang(key: int) -> int:
    key = signed(~key + (key << 21))
    key = signed(key ^ (key >> 24))
    key = signed(key + (key << 3) + (key << 8))
    key = signed(key ^ (key >> 14))
    key = signed(key + (key << 2) + (key << 4))
    key = signed(key ^ (key >> 28))
    return (key + (key << 31)) & MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK


def _mixed(word: int) -> int:
    return _rotated(word * 0x87C37B91114253D5 & MASK, 31) * 0x4CF5AD432745937F & MASK


def murmur(data: bytes) -> int:
    result = 104729
    aligned_size = len(data) // 8 * 8
    for start in range(0, aligned_size, 8):
        result ^= _mixed(int.from_bytes(data[start : start + 8], "little"))
        result = (_rotated(result, 27) * 5 + 0x52DCE729) & MASK
    if data[aligned_size:]:
        result ^= _mixed(int.from_bytes(data[aligned_size:], "little"))
    result ^= len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        result ^= result >> 33
        result = result * factor & MASK
    return result ^ result >> 33


def double_bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def positions(hashed: int, num_hash_functions: int, num_bits: int) -> list[int]:
    first, second = signed(hashed, 32), signed(hashed >> 32, 32)
    results = []
    for i in range(1, num_hash_functions + 1):
        combined = signed(first + i * second, 32)
        results.append((~combined if combined < 0 else combined) % num_bits)
    return results


def bitset(hashes: list[int], num_hash_functions: int, num_bits: int) -> bytes:
    bits = bytearray(num_bits // 8)
    for hashed in set(hashes):
        for position in positions(hashed, num_hash_functions, num_bits):
            bits[position // 8] |= 1 << position % 8
    return bytes(bits)
