// The processes below this one. A subreaper becomes the parent of every orphan below it. Only a parent can reap its
// children, and the kernel does not reuse a child's process id before the child is reaped. So these functions never
// kill a foreign process.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace anello::launch {

void adopt_orphans();  // makes this process a subreaper

// Returns the process ids of this process's children, including adopted ones. Reads /proc.
std::vector<pid_t> children();

// True if the process was started with all of these entries ("NAME=value") in its environment. Reads /proc.
bool has_variables(pid_t process, const std::vector<std::string>& entries);

// Kills and reaps all children, and then the orphans that this process adopts from them, until only the processes in
// `spared` are left. Blocks for at most `limit`; returns false if some processes were still left then.
bool end_children(const std::vector<pid_t>& spared, std::chrono::milliseconds limit);

}  // namespace anello::launch
