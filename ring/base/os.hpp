// Which kernel a process lives on. Any thread.
#pragma once
#include <string>

namespace anello {

// The same for processes that share a kernel, since its start, and its namespace of that kind ("net", "time"); empty if
// that cannot be known.
std::string kernel_identity(const std::string& kind);

}  // namespace anello
