from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

from ..block cimport block_check, block_insert, block_index, count_blocks
from ..keys cimport (
    FIXED, HASHES, INLINE_BYTES, INLINE_START, OFFSETS32, OFFSETS64, Keys, KeySpan, View, is_valid, key_offset, key_view
)
from ..hash.xxh64 cimport hash4, hash8, hash_bytes
