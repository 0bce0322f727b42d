// How many cores this process may use: its affinity, and the quota of its control group.
#pragma once

namespace anello {

double available_cores();

}  // namespace anello
