// The processes below this one. A process that is a subreaper inherits every orphan below it, and only it can reap
// its children, so that a child's number cannot come to mean somebody else: what is killed here is always ours.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <vector>

namespace anello::launch {

void adopt_orphans();  // makes this process a subreaper

// This process's children, the adopted ones too. Reads /proc.
std::vector<pid_t> children();

// Kills and reaps children, and theirs when they become ours, until none is left except those in `spared`; false if
// that took longer than `limit`.
bool end_children(const std::vector<pid_t>& spared, std::chrono::milliseconds limit);

}  // namespace anello::launch
