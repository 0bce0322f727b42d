// Which variables of the environment ranks on other hosts get, where no scheduler carries all of them. Any thread.
#pragma once
#include <string>
#include <vector>

namespace anello::launch {

// "NAME=value": PATH, LD_LIBRARY_PATH, PYTHONPATH, what begins with ANELLO_, HOROVOD_, NCCL_, OMP_ or OPENBLAS_, and
// what `exported` names.
std::vector<std::string> remote_environment(const std::vector<std::string>& exported);

// For -x: "NAME=value" sets the variable in this process, from which all ranks get it. Returns the name. Throws
// Error{configuration} if it is no name, or names a variable that is not set.
std::string export_variable(const std::string& entry);

}  // namespace anello::launch
