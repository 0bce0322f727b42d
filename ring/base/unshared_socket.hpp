// Sockets that a child made by fork() does not keep: in the child, their descriptors become /dev/null. If the child
// kept such a socket, the connection would outlive its rank, and the peers would not notice the rank's death. The
// descriptor numbers stay in use in the child, so that the destructor of a copied object cannot close another file of
// the program. If /dev/null cannot be opened, the descriptors are closed instead. Supports descriptors up to 65535. Any
// thread.
#pragma once
#include <sys/socket.h>

#include "ring/base/descriptor.hpp"

namespace anello {

// Like socket(2) and accept4(2) with SOCK_CLOEXEC. If such a call fails, the result is empty and errno is set. The
// listener must be non-blocking, because fork() waits for these calls.
Descriptor unshared_socket(int family, int type, int protocol = 0);
Descriptor accept_unshared(int listener, int flags = 0, sockaddr* peer = nullptr, socklen_t* peer_bytes = nullptr);

}  // namespace anello
