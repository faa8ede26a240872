// What the C++ peers of kernels.py share: commands on standard input, keys, threads, clock.
//
// Lines of tab-separated words come in, a line goes out for each ("error: ..." when it cannot be done):
//
//   keys   present|absent  int64|strings  VALUES  OFFSETS   files to map: int64 values, or bytes and int32 offsets
//   warm                                                    what has to be compiled first is: "ok" here
//   filter NUM_BYTES FILLED                                 a filter with the bits of a file, and two empty ones
//   bits                                                    insert all present keys into an empty one: its checksum
//   run    insert|hit|miss  THREADS  START  COUNT           nanoseconds of the slowest thread, keys found
//
// Threads share the filled filter; each inserts into an empty one of its own, since no peer's insertion may be shared.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSwept = size_t{32} << 20;  // filters up to here may live in a cache, which the other peers emptied
constexpr int kSweeps = 4;                   // a shared third-level cache keeps little of what is read once
constexpr int64_t kWarmKeys = 4096;

inline size_t WholePages(size_t num_bytes) { return (num_bytes + kHugePage - 1) / kHugePage * kHugePage; }

// Zeroed memory in pages of 2 MiB, where the kernel grants them.
inline uint8_t* HugeMemory(size_t num_bytes) {
  const size_t size = WholePages(num_bytes);
  void* mapped = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* start = static_cast<uint8_t*>(mapped);
  start += -reinterpret_cast<uintptr_t>(start) % kHugePage;  // what lies around it was never touched, and costs nothing
  madvise(start, size, MADV_HUGEPAGE);
  return start;
}

inline void HugeRelease(uint8_t* memory, size_t num_bytes) { munmap(memory, WholePages(num_bytes)); }

class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) throw std::runtime_error("cannot open " + path);
    num_bytes = static_cast<size_t>(status.st_size);
    void* mapped = mmap(nullptr, num_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    close(file);
    if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + path);
    data = static_cast<const uint8_t*>(mapped);
  }
  ~Mapped() { munmap(const_cast<uint8_t*>(data), num_bytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  const uint8_t* data;
  size_t num_bytes;
};

struct Keys {
  const int64_t* int64s = nullptr;   // else strings:
  const int32_t* offsets = nullptr;
  const uint8_t* bytes = nullptr;
  int64_t count = 0;
  std::vector<std::unique_ptr<Mapped>> files;

  Keys() = default;
  Keys(const std::string& kind, const std::string& values, const std::string& offsets_path) {
    files.push_back(std::make_unique<Mapped>(values));
    if (kind == "int64") {
      int64s = reinterpret_cast<const int64_t*>(files[0]->data);
      count = static_cast<int64_t>(files[0]->num_bytes / 8);
    } else {
      bytes = files[0]->data;
      files.push_back(std::make_unique<Mapped>(offsets_path));
      offsets = reinterpret_cast<const int32_t*>(files[1]->data);
      count = static_cast<int64_t>(files[1]->num_bytes / 4) - 1;
    }
  }
};

inline int64_t ThreadNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{1000000000} * now.tv_sec + now.tv_nsec;
}

// The same sum in every peer: it tells places apart, and needs no loop that waits for its last step.
inline uint64_t Checksum(const uint8_t* bits, size_t num_bytes) {
  uint64_t sum = 0, word;
  for (size_t i = 0; i < num_bytes / 8; i++) {
    std::memcpy(&word, bits + 8 * i, 8);
    sum += word * (2 * i + 1);
  }
  return sum;
}

// Filter: Filter(num_bytes), Load(bytes), Insert(keys, start, count), Check(keys, start, count), bits().
template <typename Filter>
class Server {
 public:
  int Serve() {
    for (std::string line; std::getline(std::cin, line);) {
      std::string answer;
      try {
        std::vector<std::string> words;
        std::istringstream stream(line);
        for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
        answer = Answer(words);
      } catch (const std::exception& error) {
        answer = std::string("error: ") + error.what();
      }
      std::cout << answer << std::endl;
    }
    return 0;
  }

 private:
  std::string Answer(const std::vector<std::string>& words) {
    const std::string& verb = words.at(0);
    if (verb == "keys") {
      Keys& keys = words.at(1) == "present" ? present_ : absent_;
      keys = Keys();
      keys = Keys(words.at(2), words.at(3), words.at(4));
      return std::to_string(keys.count);
    }
    if (verb == "warm") return "ok";
    if (verb == "filter") {
      const size_t num_bytes = std::stoull(words.at(1));
      for (auto& filter : filters_) filter.reset();
      for (auto& filter : filters_) filter = std::make_unique<Filter>(num_bytes);
      num_bytes_ = num_bytes;
      filters_[2]->Load(Mapped(words.at(2)).data, num_bytes);
      return "ok";
    }
    if (verb == "bits") {
      filters_[0]->Insert(present_, 0, present_.count);
      return std::to_string(Checksum(filters_[0]->bits(), num_bytes_));
    }
    if (verb == "run") {
      return Run(words.at(1), std::stoi(words.at(2)), std::stoll(words.at(3)), std::stoll(words.at(4)));
    }
    throw std::runtime_error("what is " + verb + "?");
  }

  std::string Run(const std::string& operation, int threads, int64_t start, int64_t count) {
    const bool insert = operation == "insert";
    const Keys& keys = operation == "miss" ? absent_ : present_;
    const int64_t share = count / threads;
    std::vector<int64_t> taken(threads), found(threads);
    std::atomic<int> ready{0};
    auto work = [&](int thread) {
      Filter& filter = *filters_[insert ? thread : 2];
      const int64_t first = start + thread * share;
      auto turn = [&](int64_t from, int64_t many) -> int64_t {
        if (!insert) return filter.Check(keys, from, many);
        filter.Insert(keys, from, many);
        return 0;
      };
      for (int sweep = 0; sweep < kSweeps && num_bytes_ <= kSwept; sweep++) {
        swept_[thread] = Checksum(filter.bits(), num_bytes_);
      }
      turn((first + keys.count / 2) % (keys.count - kWarmKeys), kWarmKeys);
      for (ready++; ready < threads;) {
      }
      const int64_t before = ThreadNanoseconds();
      found[thread] = turn(first, share);
      taken[thread] = ThreadNanoseconds() - before;
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; thread++) others.emplace_back(work, thread);
    work(0);
    for (auto& other : others) other.join();
    int64_t total = 0;
    for (int64_t part : found) total += part;
    return std::to_string(*std::max_element(taken.begin(), taken.end())) + " " + std::to_string(total);
  }

  Keys present_, absent_;
  std::unique_ptr<Filter> filters_[3];  // two that are inserted into, and the filled one
  size_t num_bytes_ = 0;
  volatile uint64_t swept_[2] = {0, 0};
};
