// Whether a signal that was sent has been taken. Any thread.
#pragma once
#include <sys/types.h>

namespace anello::launch {

// Whether a process of this group has the signal pending: it is blocked, or the process has not run since.
bool is_pending(pid_t group, int signal);

}  // namespace anello::launch
