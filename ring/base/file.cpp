#include "ring/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "ring/base/text.hpp"

namespace anello {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw system_error(text("'", path, "' cannot be written"), ErrorCode::file);
}

// A device or a pipe would be gone, also for other programs.
void require_replaceable(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode))
    throw Error(ErrorCode::file,
                text("'", path, "' cannot be written: it is not a regular file, and would be replaced"));
}

// A new name is on the disk when its folder is.
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
  std::string fresh = path + ".XXXXXX";
  const Descriptor file(mkostemp(fresh.data(), O_CLOEXEC));
  if (!file) fail(path);
  try {
    write_all(file, path, bytes);
    // EINVAL: this file system has nothing to sync.
    if (until == Until::on_disk && fsync(file.get()) != 0 && errno != EINVAL) fail(path);
    if (fchmod(file.get(), mode) != 0 || std::rename(fresh.c_str(), path.c_str()) != 0) fail(path);
    if (until == Until::on_disk) sync_folder_of(path);
  } catch (...) {
    unlink(fresh.c_str());
    throw;
  }
}

}  // namespace anello
