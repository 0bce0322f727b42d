// Making secrets. Never printed, never logged.
#pragma once
#include <string>

namespace anello::launch {

std::string make_secret();  // 64 hexadecimal digits; empty if this build cannot authenticate
std::string make_name();    // for a job, as good as unique

// A new file that only its owner may read or write. Throws Error{file}; an existing file is never touched.
void make_secret_file(const std::string& path);

}  // namespace anello::launch
