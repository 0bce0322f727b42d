// A data file, plain or gzip (told by its first bytes, not by its name), read from front to back. What a file claims
// about itself is never believed: memory grows with the bytes that are really there. Every refusal is an Error{file}
// that names the file and what was expected. One owner, one thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace anello::trainer {

class DataFile {
 public:
  explicit DataFile(const std::filesystem::path& path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  // Exactly so many bytes; `what` says in errors what they are. Refuses at once what the file cannot possibly hold.
  std::vector<std::uint8_t> read(std::uint64_t bytes, std::string_view what);
  std::uint32_t read_big_endian(std::string_view what);
  // All that is left, `most` bytes at most.
  std::vector<std::uint8_t> read_rest(std::uint64_t most);
  // Refuses bytes left over, and a gzip file whose end (checksum and length) is missing or wrong.
  void finish();

  [[noreturn]] void refuse(std::string_view why) const;

 private:
  class Source;
  std::size_t fill(std::span<std::uint8_t> to);  // fewer only at the end
  std::uint64_t max_left() const;

  std::filesystem::path path_;
  std::unique_ptr<Source> source_;
  std::uint64_t taken_bytes_ = 0;
};

}  // namespace anello::trainer
