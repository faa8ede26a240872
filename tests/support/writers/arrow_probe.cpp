// Asks Arrow C++'s filter reader, which pyarrow ships without a Python interface.
//
// Lines of tab-separated words come in: `probe|bitset  path  row_group  column  value` (the value's plain encoding in
// hexadecimal, "-" for an empty one); a line goes out for each: maybe, absent, none, the bitset, or "error: ...".

#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <arrow/io/memory.h>
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

namespace {

template <typename T>
T Fixed(const std::string& bytes) {
  if (bytes.size() != sizeof(T)) throw std::runtime_error("a value of the wrong width");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

uint64_t Hash(const parquet::BloomFilter& filter, parquet::Type::type type, const std::string& bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  switch (type) {
    case parquet::Type::INT32: return filter.Hash(Fixed<int32_t>(bytes));
    case parquet::Type::INT64: return filter.Hash(Fixed<int64_t>(bytes));
    case parquet::Type::INT96: return filter.Hash(Fixed<parquet::Int96>(bytes));
    case parquet::Type::FLOAT: return filter.Hash(Fixed<float>(bytes));
    case parquet::Type::DOUBLE: return filter.Hash(Fixed<double>(bytes));
    case parquet::Type::BYTE_ARRAY:
      return filter.Hash(parquet::ByteArray(static_cast<uint32_t>(bytes.size()), data));
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return filter.Hash(parquet::FLBA(data), static_cast<uint32_t>(bytes.size()));
    default: throw std::runtime_error("a type without filters");
  }
}

std::string Unhex(const std::string& text) {
  std::string bytes;
  if (text == "-") return bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string Bitset(const parquet::BloomFilter& filter) {
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  filter.WriteTo(sink.get());
  auto written = sink->Finish().ValueOrDie()->ToString();
  std::string bitset = written.substr(written.size() - filter.GetBitsetSize());
  std::string text;
  for (unsigned char byte : bitset) {
    text.push_back("0123456789abcdef"[byte >> 4]);
    text.push_back("0123456789abcdef"[byte & 15]);
  }
  return text;
}

std::string Answer(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
  auto file = parquet::ParquetFileReader::OpenFile(words.at(1), /*memory_map=*/false);
  const int row_group = std::stoi(words.at(2)), column = std::stoi(words.at(3));
  auto group = file->GetBloomFilterReader().RowGroup(row_group);
  auto filter = group ? group->GetColumnBloomFilter(column) : nullptr;
  if (!filter) return "none";
  if (words.at(0) == "bitset") return Bitset(*filter);
  auto type = file->metadata()->schema()->Column(column)->physical_type();
  return filter->FindHash(Hash(*filter, type, Unhex(words.at(4)))) ? "maybe" : "absent";
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    try {
      answer = Answer(line);
    } catch (const std::exception& error) {
      answer = std::string("error: ") + error.what();
      for (char& c : answer) if (c == '\n') c = ' ';
    }
    std::cout << answer << std::endl;
  }
}
