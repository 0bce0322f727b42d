#include "ring/base/unshared_socket.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ring/base/mutex.hpp"

namespace anello {
namespace {

// Nothing may allocate memory while the mutex is locked, because sanitizers lock their allocator before fork() locks
// it.
class Registry {
 public:
  Mutex mutex;

  void add(int fd) ANELLO_REQUIRES(mutex) {
    if (fd < 0 || std::size_t(fd) >= inodes_.size()) return;
    inodes_[std::size_t(fd)] = inode_of(fd);
    end_ = std::max(end_, fd + 1);
  }

  // Runs in the forked child, whose only thread holds the lock.
  void replace_all() ANELLO_REQUIRES(mutex) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);  // fails if no descriptor is free
    for (int fd = 0; fd < end_; fd++) {
      const ino_t inode = std::exchange(inodes_[std::size_t(fd)], 0);
      if (inode == 0 || inode_of(fd) != inode) continue;
      if (null < 0)
        close(fd);
      else
        dup3(null, fd, O_CLOEXEC);
    }
    if (null >= 0) close(null);
  }

 private:
  // Returns 0 if `fd` is not a socket any more: the socket has been closed, and its number is unused or belongs to
  // another file.
  static ino_t inode_of(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
  }

  // By descriptor; 0: the descriptor is not an unshared socket.
  std::array<ino_t, 65536> inodes_ ANELLO_GUARDED_BY(mutex){};
  int end_ ANELLO_GUARDED_BY(mutex) = 0;
};

constinit Registry all_sockets;

Registry& sockets() {
  [[maybe_unused]] static const int registered =
      pthread_atfork([]() ANELLO_ACQUIRE(all_sockets.mutex) { all_sockets.mutex.lock(); },
                     []() ANELLO_RELEASE(all_sockets.mutex) { all_sockets.mutex.unlock(); },
                     []() ANELLO_RELEASE(all_sockets.mutex) {
                       all_sockets.replace_all();
                       all_sockets.mutex.unlock();
                     });
  return all_sockets;
}

}  // namespace

Descriptor unshared_socket(int family, int type, int protocol) {
  Registry& registry = sockets();
  const MutexLock lock(registry.mutex);
  Descriptor opened(::socket(family, type | SOCK_CLOEXEC, protocol));
  registry.add(opened.get());
  return opened;
}

Descriptor accept_unshared(int listener, int flags, sockaddr* peer, socklen_t* peer_bytes) {
  Registry& registry = sockets();
  const MutexLock lock(registry.mutex);
  Descriptor accepted(accept4(listener, peer, peer_bytes, flags | SOCK_CLOEXEC));
  registry.add(accepted.get());
  return accepted;
}

}  // namespace anello
