// The files of the flight recorder in a folder: one for each rank of the jobs of this user that wrote some last.
#pragma once
#include <string>

#include "ring/base/identity.hpp"

namespace anello::world {

// Writes this rank's file, to the system's folder for temporary files if `folder` is empty; it replaces the one of an
// earlier job of this name. The host's first rank also says where the files are, and then removes the files of this
// user's other jobs except the newest ones; files with names that this function does not give are kept. What fails is a
// warning.
void save_flight(const std::string& flight, const std::string& folder, const Identity& identity);

}  // namespace anello::world
