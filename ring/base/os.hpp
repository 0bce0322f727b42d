// Information from the operating system about this process. Any thread.
#pragma once
#include <chrono>
#include <string>

namespace anello {

// Returns a text that is equal for all processes of one running kernel, also in containers. Virtual machines that were
// started from one snapshot also have equal texts, although each has its own kernel. Empty if the text cannot be found
// out.
std::string running_kernel();
// Returns a text that is equal for processes on the same boot of the same kernel, in the same namespace of this kind
// ("net", "time"). Empty if it cannot be found out.
std::string kernel_identity(const std::string& kind);

// Returns for how long this process has existed; executing another program does not reset this time. The result may be
// up to 10 ms too long, because of Linux's resolution. Returns 0 if the time cannot be found out.
std::chrono::milliseconds process_age();

}  // namespace anello
