// Arrow C++'s filter, from the headers and libraries of the pyarrow wheel, as a peer of kernels.py.
//
//   kernels_arrow batch|single
//
// batch hashes 256 keys at a time and inserts their hashes, as Arrow's own writer does; single does it key by key.
// Arrow probes by one hash at a time either way. Its allocator asks for huge pages by itself.

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <parquet/bloom_filter.h>
#include <parquet/types.h>

#include "kernels_peer.h"

namespace {

constexpr int kBatch = 256;  // of Arrow's writer

// Where the bitset lies: Arrow gives it out only by writing it, last.
class Finder : public arrow::io::OutputStream {
 public:
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return 0; }
  arrow::Status Write(const void* data, int64_t) override {
    last = static_cast<const uint8_t*>(data);
    return arrow::Status::OK();
  }
  const uint8_t* last = nullptr;
};

template <bool kBatched>
class ArrowFilter {
 public:
  explicit ArrowFilter(size_t num_bytes) {
    filter_.Init(static_cast<uint32_t>(num_bytes));
    Find();
  }

  void Load(const uint8_t* bits, size_t num_bytes) {
    filter_.Init(bits, static_cast<uint32_t>(num_bytes));
    Find();
  }

  const uint8_t* bits() const { return bits_; }

  void Insert(const Keys& keys, int64_t start, int64_t count) {
    if (kBatched) {
      uint64_t hashes[kBatch];
      InBatches(start, count, [&](int64_t from, int many) {
        Hash(keys, from, many, hashes);
        filter_.InsertHashes(hashes, many);
      });
    } else {
      for (int64_t i = start; i < start + count; i++) filter_.InsertHash(Hash(keys, i));
    }
  }

  int64_t Check(const Keys& keys, int64_t start, int64_t count) const {
    int64_t found = 0;
    if (kBatched) {
      uint64_t hashes[kBatch];
      InBatches(start, count, [&](int64_t from, int many) {
        Hash(keys, from, many, hashes);
        for (int i = 0; i < many; i++) found += filter_.FindHash(hashes[i]);
      });
    } else {
      for (int64_t i = start; i < start + count; i++) found += filter_.FindHash(Hash(keys, i));
    }
    return found;
  }

 private:
  template <typename Do>
  static void InBatches(int64_t start, int64_t count, Do&& batch) {
    for (int64_t done = 0; done < count; done += kBatch) {
      batch(start + done, static_cast<int>(std::min<int64_t>(kBatch, count - done)));
    }
  }

  static parquet::ByteArray String(const Keys& keys, int64_t i) {
    return {static_cast<uint32_t>(keys.offsets[i + 1] - keys.offsets[i]), keys.bytes + keys.offsets[i]};
  }

  uint64_t Hash(const Keys& keys, int64_t i) const {
    if (keys.int64s) return filter_.Hash(keys.int64s[i]);
    const parquet::ByteArray string = String(keys, i);
    return filter_.Hash(&string);
  }

  void Hash(const Keys& keys, int64_t from, int many, uint64_t* hashes) const {
    if (keys.int64s) {
      filter_.Hashes(keys.int64s + from, many, hashes);
    } else {
      parquet::ByteArray strings[kBatch];
      for (int i = 0; i < many; i++) strings[i] = String(keys, from + i);
      filter_.Hashes(strings, many, hashes);
    }
  }

  void Find() {
    Finder finder;
    filter_.WriteTo(&finder);
    bits_ = finder.last;
  }

  parquet::BlockSplitBloomFilter filter_;
  const uint8_t* bits_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const bool single = argc > 1 && std::string(argv[1]) == "single";
  return single ? Server<ArrowFilter<false>>().Serve() : Server<ArrowFilter<true>>().Serve();
}
