// Shows whether a process has received a signal that was sent to it. Any thread.
#pragma once
#include <sys/types.h>

namespace anello::launch {

// True if the signal is pending for a process of this group: the process blocks the signal, or has not run since the
// signal was sent.
bool is_pending(pid_t group, int signal);

}  // namespace anello::launch
