// What the operating system says about this process. Any thread.
#pragma once
#include <chrono>
#include <string>

namespace anello {

// Equal for all processes of one running kernel, also in containers; and, wrongly, in virtual machines that were
// started from one snapshot. Empty if it cannot be found out.
std::string running_kernel();
// A text that is equal for processes on the same boot of the same kernel, in the same namespace of that kind ("net",
// "time"). Empty if that cannot be found out.
std::string kernel_identity(const std::string& kind);

// For how long this process exists, which does not begin anew with another program; up to 10 ms too long, because that
// is how finely Linux counts; 0 if it cannot be found out.
std::chrono::milliseconds process_age();

}  // namespace anello
