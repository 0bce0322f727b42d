// Checks that loading a library ends. A library's constructor may hang, for example a driver's if its device is broken.
// A load that hangs in this process could not be given up: the loader keeps its lock, and exit() waits for that lock.
// So another process loads the library first. Any thread; blocks.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace anello::gpu {

// Starts a process that loads these files (or names, in the loader's form). Returns false if the process has not ended
// by the limit; then it is killed. Returns true if the process has ended, even if the files cannot be loaded, and also
// if no process can be started. A file's folder may have any name; the file's own name must not contain a space or a
// colon.
bool loading_ends(const std::vector<std::string>& libraries, std::chrono::milliseconds limit);

}  // namespace anello::gpu
