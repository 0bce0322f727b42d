#include "trainer/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <anello/error.hpp>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace anello::trainer {
namespace {

namespace fs = std::filesystem;
using std::to_string;
static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "ANELLOCK";
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kHeaderBytes = 8 + 4 + 8, kChecksumBytes = 4;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::file, "checkpoint '" + path.string() + "' " + why);
}

std::uint32_t checksum(std::string_view bytes, std::uint32_t before = 0) {
  return std::uint32_t(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Appends a number in its memory representation.
template <class Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_string(std::string& bytes, std::string_view value) {
  append(bytes, std::uint32_t(value.size()));
  bytes.append(value);
}

// Takes values from the front of a checkpoint's content; throws if the content ends too early.
class Content {
 public:
  Content(const fs::path& path, std::string_view bytes) : path_(path), left_(bytes) {}

  std::string_view take_bytes(std::size_t count) {
    if (count > left_.size()) refuse(path_, "does not follow its format: its content ends too early");
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  template <class Number>
  Number take() {
    Number value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string take_string() { return std::string(take_bytes(take<std::uint32_t>())); }
  void finish() const {
    if (!left_.empty())
      refuse(path_, "does not follow its format: " + to_string(left_.size()) + " bytes are left over");
  }

 private:
  const fs::path& path_;
  std::string_view left_;
};

void append_facts(std::string& bytes, const Facts& facts) {
  append(bytes, std::uint32_t(facts.size()));
  for (const auto& [option, value] : facts) {
    append_string(bytes, option);
    append_string(bytes, value);
  }
}
void append_tensor(std::string& bytes, std::span<const float> values) {
  append(bytes, std::uint64_t(values.size()));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

std::string encode(const RunFacts& facts, const Progress& progress, Backend& backend,
                   std::span<const std::span<float>> tensors, const Residuals& residuals) {
  std::string body;
  append_facts(body, facts.lasting);
  append_facts(body, facts.adjustable);
  append(body, progress.epoch);
  append(body, progress.step);
  append(body, progress.trained.sums());
  append(body, std::uint32_t(tensors.size()));
  for (const auto& tensor : tensors) {
    std::vector<float> host(tensor.size());
    backend.copy_out(tensor.data(), host);
    append_tensor(body, host);
  }
  append(body, std::uint32_t(residuals.size()));
  for (const auto& residual : residuals) append_tensor(body, residual);
  std::string file(kMagic);
  append(file, kVersion);
  append(file, std::uint64_t(body.size()));
  file += body;
  append(file, checksum(file));
  return file;
}

// Owns a descriptor; every error names the checkpoint and the call that failed.
class Descriptor {
 public:
  Descriptor(const fs::path& checkpoint, const fs::path& path, int flags)
      : checkpoint_(checkpoint), descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail("cannot be written: opening", path);
  }
  ~Descriptor() { close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) fail("cannot be written: writing", checkpoint_);
      bytes.remove_prefix(std::size_t(std::max<ssize_t>(written, 0)));
    }
  }
  void to_disk() {
    if (fsync(descriptor_) != 0 && errno != EINVAL)  // EINVAL: this file system does not need fsync()
      fail("cannot be written: syncing", checkpoint_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const fs::path& path) const {
    refuse(checkpoint_, what + " '" + path.string() + "': " + std::strerror(errno));
  }
  const fs::path& checkpoint_;
  int descriptor_;
};

// Returns the content between header and checksum, after header and checksum have been checked.
std::string read_body(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) refuse(path, "cannot be opened: " + (error ? error.message() : std::strerror(errno)));

  std::string header(kHeaderBytes, '\0');
  if (size < kHeaderBytes + kChecksumBytes || !file.read(header.data(), kHeaderBytes) || !header.starts_with(kMagic))
    refuse(path, "is not a checkpoint, or only the beginning of one");
  Content fields(path, std::string_view(header).substr(kMagic.size()));
  if (const auto version = fields.take<std::uint32_t>(); version != kVersion)
    refuse(path, "has format version " + to_string(version) + ", this program reads version " + to_string(kVersion));
  const std::uint64_t body_bytes = fields.take<std::uint64_t>(), actual = size - kHeaderBytes - kChecksumBytes;
  if (body_bytes != actual)
    refuse(path, "is damaged or cut off: " + to_string(body_bytes) + " bytes of content expected, " +
                     to_string(actual) + " found");

  std::string body(body_bytes, '\0'), sum(kChecksumBytes, '\0');
  if (!file.read(body.data(), std::streamsize(body_bytes)) || !file.read(sum.data(), kChecksumBytes))
    refuse(path, std::string("cannot be read: ") + std::strerror(errno));
  if (Content(path, sum).take<std::uint32_t>() != checksum(body, checksum(header)))
    refuse(path, "is damaged: its checksum does not match its content");
  return body;
}

void require_same_run(const fs::path& path, const Facts& written, const Facts& expected) {
  for (std::size_t i = 0; i < expected.size(); i++) {
    const auto& [option, value] = expected[i];
    if (i >= written.size() || written[i].first != option) refuse(path, "does not say its " + option);
    if (written[i].second != value)
      refuse(path, "was written with " + option + " " + written[i].second + ", this run has " + option + " " + value +
                       "; use the same, or leave out --resume to start anew");
  }
}

Facts read_facts(Content& content) {
  Facts facts;
  for (auto left = content.take<std::uint32_t>(); left > 0; left--) {
    std::string option = content.take_string();
    facts.emplace_back(std::move(option), content.take_string());
  }
  return facts;
}

std::vector<float> read_tensor(Content& content, const fs::path& path, std::size_t expected) {
  if (const auto count = content.take<std::uint64_t>(); count != expected)
    refuse(path, "holds a tensor of " + to_string(count) + " elements, " + to_string(expected) + " expected");
  std::vector<float> values(expected);
  std::memcpy(values.data(), content.take_bytes(expected * sizeof(float)).data(), expected * sizeof(float));
  return values;
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

void require_writable(const fs::path& path) {
  if (fs::is_directory(path)) refuse(path, "cannot be written: it is a directory");
  if (access(directory_of(path).c_str(), W_OK | X_OK) != 0)
    refuse(path, "cannot be written: directory '" + directory_of(path).string() + "': " + std::strerror(errno));
}

void write_checkpoint(const fs::path& path, const RunFacts& facts, const Progress& progress, Backend& backend,
                      std::span<const std::span<float>> tensors, const Residuals& residuals) {
  const fs::path fresh = path.string() + ".part";
  try {
    Descriptor file(path, fresh, O_WRONLY | O_CREAT | O_TRUNC);
    file.write_all(encode(facts, progress, backend, tensors, residuals));
    file.to_disk();
    if (std::rename(fresh.c_str(), path.c_str()) != 0)
      refuse(path, "cannot be written: renaming '" + fresh.string() + "': " + std::strerror(errno));
  } catch (...) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw;
  }
  Descriptor(path, directory_of(path), O_RDONLY | O_DIRECTORY).to_disk();
}

SavedState read_checkpoint(const fs::path& path, const Facts& lasting, Backend& backend,
                           std::span<const std::span<float>> tensors) {
  const std::string bytes = read_body(path);
  Content body(path, bytes);
  require_same_run(path, read_facts(body), lasting);
  SavedState saved;
  saved.adjustable = read_facts(body);
  saved.progress.epoch = body.take<std::uint64_t>();
  saved.progress.step = body.take<std::uint64_t>();
  saved.progress.trained = Metrics::of(body.take<Metrics::Sums>());
  if (const auto count = body.take<std::uint32_t>(); count != tensors.size())
    refuse(path, "holds " + to_string(count) + " tensors, " + to_string(tensors.size()) + " expected");
  std::vector<std::vector<float>> contents;
  for (const auto& tensor : tensors) contents.push_back(read_tensor(body, path, tensor.size()));
  for (auto left = body.take<std::uint32_t>(); left > 0; left--)
    saved.residuals.push_back(read_tensor(body, path, tensors[0].size()));
  body.finish();
  for (std::size_t i = 0; i < tensors.size(); i++) backend.copy_in(contents[i], tensors[i].data());
  return saved;
}

}  // namespace anello::trainer
