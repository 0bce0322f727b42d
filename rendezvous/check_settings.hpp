// Checks this process's settings before it joins a world, with the error messages of init(). `anello doctor` uses these
// checks too. Any thread.
#pragma once
#include "ring/base/log.hpp"
#include "ring/world/check_settings.hpp"

namespace anello::rendezvous {

// Reads ANELLO_LOG. Throws Error{configuration}.
Severity log_severity(const Settings& settings);

// Calls `refuse` for each setting that init() refuses for every world: a wrong log severity, or ranks and sizes that
// contradict each other.
void check_settings(const Settings& settings, const world::Refuse& refuse);

// Calls `refuse` for each wrong setting that only matters in a world of several ranks: the server's address, the job's
// name, the interface, and the secret. Reads the secret.
void check_joining(const Settings& settings, const world::Refuse& refuse);

}  // namespace anello::rendezvous
