// Chooses the environment variables for ranks on other hosts, if no scheduler passes on all variables. Any thread.
#pragma once
#include <string>
#include <vector>

namespace anello::launch {

// Returns "NAME=value" entries: PATH, LD_LIBRARY_PATH, PYTHONPATH, variables that begin with ANELLO_, HOROVOD_, NCCL_,
// OMP_ or OPENBLAS_, and those that `exported` names.
std::vector<std::string> remote_environment(const std::vector<std::string>& exported);

// Handles an entry of -x. "NAME=value" sets the variable in this process, and all ranks then get it from here. Returns
// the name. Throws Error{configuration} if the name is not valid, or names a variable that is not set.
std::string export_variable(const std::string& entry);

}  // namespace anello::launch
