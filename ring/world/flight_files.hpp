// The files of the flight recorder in a folder: one for each rank of this user's most recent jobs.
#pragma once
#include <string>

#include "ring/base/identity.hpp"

namespace anello::world {

// Writes this rank's file, which replaces the file of an earlier job with the same name. If `folder` is empty, uses the
// system's folder for temporary files. The host's first rank also logs where the files are, and then removes the files
// of this user's other jobs except the newest ones. Files whose names have another form are kept. A failure is logged
// as a warning.
void save_flight(const std::string& flight, const std::string& folder, const Identity& identity);

}  // namespace anello::world
