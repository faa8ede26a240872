// The least that any filter has to do for a key, as a peer of kernels.py: hash it, find its block, read the 32 bytes.
//
//   kernels_limit read|mask
//
// read looks for nothing in what it read: this is where the processor and its memory end. mask makes the key's eight
// bits too and compares the block with them, though it gives no answers: no check or insertion can do with less; it
// finds 0 where no key lacks a bit. Hash and index are those of parquet_bloom/core/include/simd.h at the best instruction set
// of the machine (-march=native); blocks are located a chunk ahead and, beyond the near caches, prefetched; bitsets
// stand in pages of 2 MiB.

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__BMI2__)
#define PB_SIMD PB_AVX512
#elif defined(__AVX2__)
#define PB_SIMD PB_AVX2
#else
#error "the limit is written for AVX2 and AVX-512"
#endif

#include "kernels_peer.h"
#include "simd.h"

#define XXH_INLINE_ALL
#include <arrow/vendored/xxhash/xxhash.h>  // for what the instruction set hashes no better

namespace {

constexpr int kChunk = 64;
constexpr size_t kNear = size_t{2} << 20;
constexpr int kInputAhead = 4096;

void Prefetch(const void* address, ptrdiff_t num_bytes) {
  for (ptrdiff_t i = 0; i < num_bytes; i += 64) __builtin_prefetch(static_cast<const uint8_t*>(address) + i, 0, 2);
}

// Kept out of the loops: inlined, it would keep their primitives from being so.
[[gnu::noinline]] void HashRest(const uint8_t* const* starts, const uint64_t* lengths, ptrdiff_t first,
                                uint64_t* hashes) {
  for (ptrdiff_t i = first; i < kChunk; i++) hashes[i] = XXH64(starts[i], lengths[i], 0);
}

template <bool kMasked>
class Reader {
 public:
  explicit Reader(size_t num_bytes) : num_bytes_(num_bytes), bits_(HugeMemory(num_bytes)) {
    std::memset(bits_, 0, num_bytes);  // a page that was never written would be read from the one page of zeros
  }
  ~Reader() { HugeRelease(bits_, num_bytes_); }

  void Load(const uint8_t* bits, size_t num_bytes) { std::memcpy(bits_, bits, num_bytes); }
  const uint8_t* bits() const { return bits_; }
  void Insert(const Keys& keys, int64_t start, int64_t count) { kept_ = Read(keys, start, count); }
  int64_t Check(const Keys& keys, int64_t start, int64_t count) { return Read(keys, start, count); }

 private:
  // Whole chunks; a rest is left out.
  int64_t Read(const Keys& keys, int64_t start, int64_t count) const {
    uint64_t places[2][kChunk];
    uint32_t lower[2][kChunk];
    __m256i sums[4] = {};
    const int64_t chunks = count / kChunk;
    for (int64_t chunk = 0; chunk <= chunks; chunk++) {
      if (chunk < chunks) Locate(keys, start + chunk * kChunk, places[chunk % 2], lower[chunk % 2]);
      if (chunk == 0) continue;
      const uint64_t* before = places[(chunk - 1) % 2];
      const uint32_t* keys_before = lower[(chunk - 1) % 2];
      for (int i = 0; i < kChunk; i += 4) {
        for (int j = 0; j < 4; j++) {
          __m256i block = _mm256_load_si256(reinterpret_cast<const __m256i*>(bits_ + before[i + j]));
          if (kMasked) block = _mm256_andnot_si256(block, pb_mask(keys_before[i + j]));
          sums[j] = _mm256_xor_si256(sums[j], block);
        }
      }
    }
    const __m256i sum = _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    return _mm256_extract_epi64(sum, 0) ^ _mm256_extract_epi64(sum, 1);
  }

  void Locate(const Keys& keys, int64_t from, uint64_t* places, uint32_t* lower) const {
    uint64_t hashes[kChunk];
    if (keys.int64s) {
      const auto* values = reinterpret_cast<const uint8_t*>(keys.int64s + from);
      Prefetch(values + kInputAhead, 8 * kChunk);
      pb_hash8(values, kChunk, hashes);
    } else {
      const uint8_t* starts[kChunk];
      uint64_t lengths[kChunk];
      const int32_t* offsets = keys.offsets + from;
      Prefetch(reinterpret_cast<const uint8_t*>(offsets) + kInputAhead, 4 * kChunk);
      for (int i = 0; i < kChunk; i++) {
        starts[i] = keys.bytes + offsets[i];
        lengths[i] = static_cast<uint64_t>(offsets[i + 1] - offsets[i]);
      }
      Prefetch(starts[0] + kInputAhead, offsets[kChunk] - offsets[0]);
      const auto done = pb_hash_spans(starts, lengths, kChunk, hashes);
      if (done < kChunk) HashRest(starts, lengths, done, hashes);
    }
    pb_locate(hashes, kChunk, num_bytes_ / 32, places, lower);
    if (num_bytes_ > kNear) {
      for (int i = 0; i < kChunk; i++) __builtin_prefetch(bits_ + places[i], 0, 2);
    }
  }

  size_t num_bytes_;
  uint8_t* bits_;
  volatile int64_t kept_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool mask = argc > 1 && std::string(argv[1]) == "mask";
  return mask ? Server<Reader<true>>().Serve() : Server<Reader<false>>().Serve();
}
