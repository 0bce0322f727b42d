#include "rendezvous/launch/base/descriptor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ring/base/text.hpp"

namespace anello::launch {

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) throw system_error("making a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Pipe make_channel() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) throw system_error("making a local socket");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Descriptor make_memory_file(std::string_view content) {
  Descriptor file(memfd_create("anello", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw system_error("making a file in memory");
  write_all(file.get(), content, "file in memory");
  lseek(file.get(), 0, SEEK_SET);
  fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return file;
}

Descriptor open_nothing() {
  Descriptor file(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!file) throw system_error("opening /dev/null");
  return file;
}

void set_nonblocking(const Descriptor& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

void write_all(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(text("writing ", name), ErrorCode::file);
    bytes.remove_prefix(std::size_t(written));
  }
}

void close_all_but(const std::vector<int>& needed) {
  std::vector<int> found;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (const dirent* entry = readdir(folder)) found.push_back(std::atoi(entry->d_name));
    closedir(folder);
  }
  for (int fd : found)
    if (fd > STDERR_FILENO && std::ranges::find(needed, fd) == needed.end()) ::close(fd);
}

OpenFilesLimit open_files_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur, limit.rlim_max};
}

void set_open_files_limit(unsigned long now) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = now;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace anello::launch
