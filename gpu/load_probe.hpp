// Whether loading a library ends. A library whose constructor hangs, as that of a driver may whose device is broken,
// cannot be given up in this process: the loader keeps its lock, and exit() waits for that. So another process tries
// first. Any thread; blocks.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace anello::gpu {

// False if a process that loads these files (or names, as the loader takes them) has not ended by the limit. It is then
// killed. True also if they cannot be loaded, or no such process can be started. A file's folder may have any name; the
// file's own name must have no space and no colon.
bool loading_ends(const std::vector<std::string>& libraries, std::chrono::milliseconds limit);

}  // namespace anello::gpu
