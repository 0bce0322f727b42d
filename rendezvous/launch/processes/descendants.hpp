// The processes below this one. A subreaper becomes the parent of every orphan below it. Only a parent can reap its
// children, so the kernel does not reuse a child's process id before that: these functions never kill a foreign
// process.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <vector>

namespace anello::launch {

void adopt_orphans();  // makes this process a subreaper

// The process ids of this process's children, including adopted ones. Reads /proc.
std::vector<pid_t> children();

// Kills and reaps all children, and their children when this process adopts them, until only those in `spared` are
// left. Blocks for at most `limit`; returns false if that was not enough.
bool end_children(const std::vector<pid_t>& spared, std::chrono::milliseconds limit);

}  // namespace anello::launch
