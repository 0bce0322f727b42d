#include "ring/net/auth.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include "ring/base/check.hpp"
#include "ring/base/descriptor.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/net/hmac.hpp"

namespace anello::net {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPipeLimit{2000};

// The rank has read the secret and closed its descriptor, so in a child the same descriptor number may be another file.
constexpr std::string_view kOfAChild =
    "A process that a rank has started does not belong to the job: "
    "`env -u ANELLO_RENDEZVOUS -u ANELLO_RANK ANELLO_SIZE=1` makes it a world of its own";

void await_readable(int fd, steady_clock::time_point deadline, const std::string& source) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    const int ready = poll(&entry, 1, left > 0 ? int(left) : 0);
    if (ready > 0) return;
    if (ready == 0)
      throw Error(ErrorCode::configuration, text(source, ": no end of the secret within ", kPipeLimit.count(),
                                                 " ms; write it and close the other end. ", kOfAChild));
    if (errno != EINTR) throw Error(ErrorCode::file, text(source, ": ", std::strerror(errno)));
  }
}

// Reads to the end of the file, but at most one byte more than allowed, so that a secret that is too long is noticed.
std::string read_all(int fd, const std::string& source) {
  const auto deadline = steady_clock::now() + kPipeLimit;
  const bool seekable = lseek(fd, 0, SEEK_CUR) >= 0;
  std::string bytes(kMaxSecretBytes + 2, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    if (!seekable) await_readable(fd, deadline, source);
    char* const to = bytes.data() + have;
    const ssize_t got = seekable ? pread(fd, to, bytes.size() - have, off_t(have)) : read(fd, to, bytes.size() - have);
    if (got == 0) break;
    if (got > 0) have += std::size_t(got);
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      throw Error(ErrorCode::file, text(source, ": ", std::strerror(errno)));
  }
  bytes.resize(have);
  return bytes;
}

std::string checked_secret(std::string bytes, const std::string& source) {
  if (bytes.ends_with('\n')) bytes.pop_back();
  if (bytes.empty())
    throw Error(ErrorCode::configuration, text(source, ": the secret is empty; `anello secret` makes one"));
  if (bytes.size() > kMaxSecretBytes)
    throw Error(ErrorCode::configuration, text(source, ": the secret is longer than ", kMaxSecretBytes, " bytes"));
  return bytes;
}

std::string secret_from_descriptor(int fd) {
  static Mutex mutex;
  static std::map<int, std::string> remembered ANELLO_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (const auto known = remembered.find(fd); known != remembered.end()) return known->second;
  const std::string source = text("ANELLO_SECRET_FD=", fd);
  if (fcntl(fd, F_GETFD) < 0)
    throw Error(ErrorCode::configuration,
                text(source, ": the descriptor is not open; it must be inherited. ", kOfAChild));
  const Descriptor closed_at_end(fd);
  return remembered[fd] = checked_secret(read_all(fd, source), source);
}

std::string secret_from_file(const std::string& path) {
  const std::string source = text("ANELLO_SECRET_FILE='", path, "'");
  // O_NONBLOCK, so that open() does not block on a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Error(ErrorCode::file, text(source, ": ", std::strerror(errno)));
  const Descriptor file(fd);
  struct stat about {};
  if (fstat(fd, &about) != 0) throw Error(ErrorCode::file, text(source, ": ", std::strerror(errno)));
  if (!S_ISREG(about.st_mode)) throw Error(ErrorCode::file, text(source, ": not a regular file"));
  const mode_t others = about.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IRWXO;
  if ((about.st_mode & others) != 0)
    throw Error(ErrorCode::file, text(source, ": others have access to the file; chmod 600 it"));
  return checked_secret(read_all(fd, source), source);
}

}  // namespace

std::string read_secret(const Settings& settings) {
  if (settings.secret_fd >= 0) return secret_from_descriptor(settings.secret_fd);
  if (!settings.secret_file.empty()) return secret_from_file(settings.secret_file);
  return {};
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = getrandom(bytes.data() + have, count - have, 0);
    ANELLO_CHECK(got >= 0 || errno == EINTR);
    if (got > 0) have += std::size_t(got);
  }
  return bytes;
}

std::string random_digits(std::size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char byte : random_bytes(bytes)) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return out;
}

std::string make_secret() try {
  std::string secret = random_digits(32);
  require_authentication(secret);
  return secret;
} catch (const Error& error) {
  if (error.code() != ErrorCode::unsupported) throw;
  return "";
}

bool same_bytes(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); i++)
    difference = static_cast<unsigned char>(difference | (left[i] ^ right[i]));
  return difference == 0;
}

}  // namespace anello::net
