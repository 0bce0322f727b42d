#include "trainer/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <anello/error.hpp>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::trainer {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "ANELLOCK";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 8 + 4 + 8, kChecksumBytes = 4;
constexpr std::size_t kMaxText = 4096;

[[noreturn]] void refuse(const fs::path& path, std::string_view why) {
  throw Error(ErrorCode::file, text("checkpoint '", path.string(), "' ", why));
}

std::uint32_t checksum(std::string_view bytes, std::uint32_t before = 0) {
  return std::uint32_t(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string encode(const Facts& facts, std::uint64_t epoch, Backend& backend,
                   std::span<const std::span<float>> tensors) {
  Writer body;
  body.u32(std::uint32_t(facts.size()));
  for (const auto& [option, value] : facts) body.str(option).str(value);
  body.u64(epoch).u32(std::uint32_t(tensors.size()));
  for (const auto& tensor : tensors) {
    std::vector<float> host(tensor.size());
    backend.copy_out(tensor.data(), host);
    body.u64(host.size()).raw({reinterpret_cast<const char*>(host.data()), tensor.size_bytes()});
  }
  Writer whole;
  whole.raw(kMagic).u32(kVersion).u64(body.bytes().size()).raw(body.bytes());
  return std::move(whole.u32(checksum(whole.bytes()))).take();
}

// Owns a descriptor; every failure names the checkpoint and the call.
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
    if (fsync(descriptor_) != 0 && errno != EINVAL)  // which says that this file system has nothing to sync
      fail("cannot be written: syncing", checkpoint_);
  }

 private:
  [[noreturn]] void fail(std::string_view what, const fs::path& path) const {
    refuse(checkpoint_, text(what, " '", path.string(), "': ", std::strerror(errno)));
  }
  const fs::path& checkpoint_;
  int descriptor_;
};

// What lies between header and checksum, once nothing about the frame is doubtful.
std::string read_body(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) refuse(path, text("cannot be opened: ", error ? error.message() : std::strerror(errno)));

  std::string header(kHeaderBytes, '\0');
  if (size < kHeaderBytes + kChecksumBytes || !file.read(header.data(), kHeaderBytes) || !header.starts_with(kMagic))
    refuse(path, "is not a checkpoint, or only the beginning of one");
  Reader fields("header", std::string_view(header).substr(kMagic.size()));
  if (const auto version = fields.u32(); version != kVersion)
    refuse(path, text("has format version ", version, ", this program reads version ", kVersion));
  const std::uint64_t body_bytes = fields.u64(), actual = size - kHeaderBytes - kChecksumBytes;
  if (body_bytes != actual)
    refuse(path, text("is damaged or cut off: ", body_bytes, " bytes of content expected, ", actual, " found"));

  std::string body(body_bytes, '\0'), sum(kChecksumBytes, '\0');
  if (!file.read(body.data(), std::streamsize(body_bytes)) || !file.read(sum.data(), kChecksumBytes))
    refuse(path, text("cannot be read: ", std::strerror(errno)));
  if (Reader("checksum", sum).u32() != checksum(body, checksum(header)))
    refuse(path, "is damaged: its checksum does not match its content");
  return body;
}

void require_same_run(const fs::path& path, const Facts& written, const Facts& expected) {
  for (std::size_t i = 0; i < expected.size(); i++) {
    const auto& [option, value] = expected[i];
    if (i >= written.size() || written[i].first != option) refuse(path, text("does not say its ", option));
    if (written[i].second != value)
      refuse(path, text("was written with ", option, " ", written[i].second, ", this run has ", option, " ", value,
                        "; use the same, or leave out --resume to start anew"));
  }
}

Facts read_facts(Reader& reader) {
  Facts facts;
  for (std::uint32_t left = reader.u32(); left > 0; left--) {
    std::string option = reader.str(kMaxText);
    facts.emplace_back(std::move(option), reader.str(kMaxText));
  }
  return facts;
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

void require_writable(const fs::path& path) {
  if (fs::is_directory(path)) refuse(path, "cannot be written: it is a directory");
  if (access(directory_of(path).c_str(), W_OK | X_OK) != 0)
    refuse(path, text("cannot be written: directory '", directory_of(path).string(), "': ", std::strerror(errno)));
}

void write_checkpoint(const fs::path& path, const Facts& facts, std::uint64_t epoch, Backend& backend,
                      std::span<const std::span<float>> tensors) {
  const fs::path fresh = path.string() + ".part";
  try {
    Descriptor file(path, fresh, O_WRONLY | O_CREAT | O_TRUNC);
    file.write_all(encode(facts, epoch, backend, tensors));
    file.to_disk();
    if (std::rename(fresh.c_str(), path.c_str()) != 0)
      refuse(path, text("cannot be written: renaming '", fresh.string(), "': ", std::strerror(errno)));
  } catch (...) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw;
  }
  Descriptor(path, directory_of(path), O_RDONLY | O_DIRECTORY).to_disk();
}

std::uint64_t read_checkpoint(const fs::path& path, const Facts& facts, Backend& backend,
                              std::span<const std::span<float>> tensors) {
  const std::string bytes = read_body(path);
  try {
    Reader body("checkpoint", bytes);
    require_same_run(path, read_facts(body), facts);
    const std::uint64_t epoch = body.u64();
    if (const auto count = body.u32(); count != tensors.size())
      refuse(path, text("holds ", count, " tensors, ", tensors.size(), " expected"));
    std::vector<std::vector<float>> contents;
    for (const auto& tensor : tensors) {
      if (const auto count = body.u64(); count != tensor.size())
        refuse(path, text("holds a tensor of ", count, " elements, ", tensor.size(), " expected"));
      std::memcpy(contents.emplace_back(tensor.size()).data(), body.raw(tensor.size_bytes()).data(),
                  tensor.size_bytes());
    }
    body.finish();
    for (std::size_t i = 0; i < tensors.size(); i++) backend.copy_in(contents[i], tensors[i].data());
    return epoch;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::protocol) throw;
    refuse(path, text("does not follow its format: ", error.message()));
  }
}

}  // namespace anello::trainer
