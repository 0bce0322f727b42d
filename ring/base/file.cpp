#include "ring/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "ring/base/text.hpp"

namespace anello {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path) {
  throw system_error(text("'", path, "' cannot be written"), ErrorCode::file);
}

// Refuses devices and pipes, because replacing one would also remove it for other programs.
void require_replaceable(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    throw Error(ErrorCode::file,
                text("'", path, "' cannot be written: it is not a regular file, and would be replaced"));
}

// True if the link is in /proc/self/fd. Such a link stands for an open file. Replacing that file would lose later
// writes, because they go to the old file.
bool is_open_file(const fs::path& link) {
  std::error_code error;
  return fs::canonical(fs::absolute(link).parent_path(), error).string().starts_with("/proc/");
}

// Returns the path of the file to which `path` leads, through symbolic links; the file need not exist.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  fs::path at = path;
  for (int links = 0; links <= kMostLinks; links++) {
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return at.string();  // `at` is not a link
    if (is_open_file(at))
      throw Error(ErrorCode::file, text("'", path, "' cannot be written: it is an open file, and would be replaced"));
    at = at.parent_path() / next;
  }
  errno = ELOOP;
  fail(path);
}

// A file's new name is on the disk only after its folder has been synchronized.
void sync_folder_of(const std::string& path) {
  const std::size_t end = path.rfind('/');
  const std::string folder = end == std::string::npos ? "." : path.substr(0, end + 1);
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || (fsync(opened.get()) != 0 && errno != EINVAL)) fail(path);
}

}  // namespace

void write_all(const Descriptor& file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path);
    bytes.remove_prefix(std::size_t(written));
  }
}

void replace_file(const std::string& path, std::string_view bytes, ReadableBy readers, Until until) {
  require_replaceable(path);
  const mode_t mode = readers == ReadableBy::all ? 0644 : 0600;
  const std::string real = behind_links(path);
  std::string fresh = real + ".XXXXXX";
  const Descriptor file(mkostemp(fresh.data(), O_CLOEXEC));
  if (!file) fail(path);
  try {
    write_all(file, path, bytes);
    // EINVAL: this file system does not support fsync().
    if (until == Until::on_disk && fsync(file.get()) != 0 && errno != EINVAL) fail(path);
    if (fchmod(file.get(), mode) != 0 || std::rename(fresh.c_str(), real.c_str()) != 0) fail(path);
    if (until == Until::on_disk) sync_folder_of(real);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
}

}  // namespace anello
