#include "rendezvous/launch/cli/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "rendezvous/launch/base/descriptor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

std::string make_name() {
  return "run-" + net::random_digits(6);
}

void make_private_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) < 0 && errno != EEXIST) throw system_error("making " + folder, ErrorCode::file);
  }
}

void make_secret_file(const std::string& path) {
  const std::string secret = net::random_digits(32);
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file && errno == EEXIST)
    throw Error(ErrorCode::file, text(path, " exists already; choose another name or remove the file"));
  if (!file) throw system_error("making " + path, ErrorCode::file);
  try {
    if (fchmod(file.get(), 0600) < 0) throw system_error("protecting " + path, ErrorCode::file);
    write_all(file.get(), secret + "\n", path);
    if (fsync(file.get()) < 0) throw system_error("writing " + path, ErrorCode::file);
  } catch (const Error&) {
    unlink(path.c_str());
    throw;
  }
}

}  // namespace anello::launch
