#include "rendezvous/launch/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "rendezvous/launch/descriptor.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"

namespace anello::launch {
namespace {

std::string random_digits(std::size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char byte : net::random_bytes(bytes)) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

}  // namespace

std::string make_secret() try {
  std::string secret = random_digits(32);
  net::require_authentication(secret);
  return secret;
} catch (const Error& error) {
  if (error.code() != ErrorCode::unsupported) throw;
  return "";
}

std::string make_name() {
  return "run-" + random_digits(6);
}

void make_secret_file(const std::string& path) {
  const std::string secret = random_digits(32);
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
