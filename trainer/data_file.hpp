// Reads a data file from front to back, plain or gzip (the first bytes of the file, not its name, show which of the two
// it is). Does not trust the sizes that the file states: allocates memory only for bytes that were read. Every error is
// an Error{file} that names the file and what was expected. One owner, one thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::trainer {

class DataFile {
 public:
  explicit DataFile(const std::filesystem::path& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  // Returns exactly `bytes` bytes. `what`: their name in error messages. Throws at once if the file is too short.
  std::vector<std::uint8_t> read(std::uint64_t bytes, std::string_view what);
  std::uint32_t read_big_endian(std::string_view what);
  // Returns all bytes that are left; throws if they are more than `max_bytes`.
  std::vector<std::uint8_t> read_rest(std::uint64_t max_bytes);
  // Throws if the file has bytes that have not been read, or if it is gzip and its end (checksum and length) is missing
  // or wrong.
  void finish();

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  class Source;
  std::size_t fill(std::span<std::uint8_t> to);  // returns fewer bytes only at the end of the file
  std::uint64_t max_left() const;

  std::filesystem::path path_;
  std::unique_ptr<Source> source_;
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace anello::trainer
