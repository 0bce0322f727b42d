// Checks that loading a library ends. If a library's constructor hangs, as a driver's may if its device is broken, this
// process cannot give it up: the loader keeps its lock, and exit() waits for that. So another process loads the library
// first. Any thread; blocks.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace anello::gpu {

// False if a process that loads these files (or names, in the loader's form) has not ended by the limit. It is then
// killed. Also true if they cannot be loaded, or if no such process can be started. A file's folder may have any name;
// the file's own name must have no space and no colon.
bool loading_ends(const std::vector<std::string>& libraries, std::chrono::milliseconds limit);

}  // namespace anello::gpu
