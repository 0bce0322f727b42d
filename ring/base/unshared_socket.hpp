// Sockets that a child made by fork() does not keep: its copies become /dev/null. With a copy that lives in a child, a
// connection outlives its rank, and its peers do not notice the rank's death. The numbers stay taken in the child, so
// that an object which is destroyed there closes nothing of the program's; if /dev/null cannot be opened, they are
// closed. Descriptors up to 65535. Any thread.
#pragma once
#include <sys/socket.h>

#include "ring/base/descriptor.hpp"

namespace anello {

// socket(2) and accept4(2) with SOCK_CLOEXEC. If they fail, the result is empty and errno says why. The
// listener must not block, because fork() waits for these calls.
Descriptor unshared_socket(int family, int type, int protocol = 0);
Descriptor accept_unshared(int listener, int flags = 0, sockaddr* peer = nullptr, socklen_t* peer_bytes = nullptr);

}  // namespace anello
