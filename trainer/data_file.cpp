#include "trainer/data_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace anello::trainer {
namespace {
using std::to_string;
constexpr std::uint64_t kMaxInflation = 1032;  // deflate's best ratio: 258 bytes from two bits
constexpr std::array<std::uint8_t, 2> kGzipMagic = {0x1f, 0x8b};
constexpr std::size_t kPiece = std::size_t(1) << 20;
}  // namespace

// Reads the file's bytes, and inflates them if they are gzip.
class DataFile::Source {
 public:
  explicit Source(const DataFile& file);
  ~Source();
  std::size_t fill(std::span<std::uint8_t> to);
  std::uint64_t max_bytes() const { return gzip_ ? size_bytes_ * kMaxInflation : size_bytes_; }

 private:
  std::size_t inflate_into(std::span<std::uint8_t> to);
  std::size_t read_disk(std::span<std::uint8_t> to);

  const DataFile& file_;
  std::ifstream disk_;
  std::uint64_t size_bytes_ = 0;
  bool gzip_ = false, ended_ = false;
  z_stream stream_{};
  std::array<std::uint8_t, 65536> packed_{};
};

DataFile::Source::Source(const DataFile& file) : file_(file) {
  std::error_code error;
  const auto status = std::filesystem::status(file.path_, error);
  if (!error && !is_regular_file(status)) file.refuse("is not a regular file");  // opening a pipe could block
  disk_.open(file.path_, std::ios::binary);
  if (!disk_) {
    const int why = errno;
    file.refuse(std::string("cannot be opened: ") + std::strerror(why) +
                (why == EMFILE ? "; raise the limit (ulimit -n)" : ""));
  }
  size_bytes_ = std::filesystem::file_size(file.path_, error);
  if (error) file.refuse("has no size: " + error.message());
  stream_.next_in = packed_.data();
  stream_.avail_in = uInt(read_disk(packed_));
  gzip_ = stream_.avail_in >= 2 && std::equal(kGzipMagic.begin(), kGzipMagic.end(), packed_.begin());
  if (gzip_ && inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) file.refuse("cannot be inflated: out of memory");
}

DataFile::Source::~Source() {
  if (gzip_) inflateEnd(&stream_);
}

std::size_t DataFile::Source::read_disk(std::span<std::uint8_t> to) {
  disk_.read(reinterpret_cast<char*>(to.data()), std::streamsize(to.size()));
  if (disk_.bad()) file_.refuse(std::string("cannot be read: ") + std::strerror(errno));
  return std::size_t(disk_.gcount());
}

std::size_t DataFile::Source::fill(std::span<std::uint8_t> to) {
  if (gzip_) return inflate_into(to);
  const std::size_t peeked = std::min<std::size_t>(stream_.avail_in, to.size());
  std::memcpy(to.data(), stream_.next_in, peeked);
  stream_.next_in += peeked;
  stream_.avail_in -= uInt(peeked);
  return peeked + read_disk(to.subspan(peeked));
}

std::size_t DataFile::Source::inflate_into(std::span<std::uint8_t> to) {
  stream_.next_out = to.data();
  stream_.avail_out = uInt(to.size());
  while (stream_.avail_out > 0) {
    if (stream_.avail_in == 0) {
      stream_.next_in = packed_.data();
      stream_.avail_in = uInt(read_disk(packed_));
    }
    if (stream_.avail_in == 0) {
      if (!ended_) file_.refuse("is a gzip file that has been cut off");
      break;
    }
    if (ended_) {  // the file may have a further stream, because a gzip file may consist of several
      if (*stream_.next_in != kGzipMagic[0]) file_.refuse("holds more bytes after its gzip end");
      inflateReset(&stream_);
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END)
      file_.refuse("is a damaged gzip file" + (stream_.msg ? " (" + std::string(stream_.msg) + ")" : ""));
    ended_ = result == Z_STREAM_END;
  }
  return to.size() - stream_.avail_out;
}

DataFile::DataFile(const std::filesystem::path& path) : path_(path), source_(std::make_unique<Source>(*this)) {}
DataFile::~DataFile() = default;

void DataFile::refuse(const std::string& why) const {
  throw Error(ErrorCode::file, "data file '" + path_.string() + "' " + why);
}

std::size_t DataFile::fill(std::span<std::uint8_t> to) {
  const std::size_t got = source_->fill(to);
  taken_bytes_ += got;
  return got;
}

std::uint64_t DataFile::max_left() const {
  return source_->max_bytes() - std::min(taken_bytes_, source_->max_bytes());
}

std::vector<std::uint8_t> DataFile::read(std::uint64_t bytes, std::string_view what) {
  if (bytes > max_left())
    refuse("is too short: " + to_string(bytes) + " bytes of " + std::string(what) + " expected, " +
           to_string(max_left()) + " left at most");
  std::vector<std::uint8_t> result;
  while (result.size() < bytes) {
    const std::size_t done = result.size();
    const std::size_t piece = std::size_t(std::min<std::uint64_t>(kPiece, bytes - done));
    result.resize(done + piece);
    if (const std::size_t got = fill(std::span(result).subspan(done)); got < piece)
      refuse("is too short: " + to_string(bytes) + " bytes of " + std::string(what) + " expected, " +
             to_string(done + got) + " found");
  }
  return result;
}

std::uint32_t DataFile::read_big_endian(std::string_view what) {
  const auto bytes = read(4, what);
  return std::uint32_t(bytes[0]) << 24 | std::uint32_t(bytes[1]) << 16 | std::uint32_t(bytes[2]) << 8 | bytes[3];
}

std::vector<std::uint8_t> DataFile::read_rest(std::uint64_t max_bytes) {
  std::vector<std::uint8_t> result;
  for (std::size_t got = kPiece, done = 0; got == kPiece; done += got) {
    result.resize(done + kPiece);
    got = fill(std::span(result).subspan(done));
    result.resize(done + got);
    if (result.size() > max_bytes) refuse("is too long: at most " + to_string(max_bytes) + " bytes expected");
  }
  return result;
}

void DataFile::finish() {
  std::uint8_t extra = 0;
  if (fill({&extra, 1}) != 0) refuse("is too long: its end expected after " + to_string(taken_bytes_ - 1) + " bytes");
}

}  // namespace anello::trainer
