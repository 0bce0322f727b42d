// Makes secrets. They are never printed or logged.
#pragma once
#include <string>

namespace anello::launch {

std::string make_secret();  // 64 hexadecimal digits; empty if this build cannot authenticate
std::string make_name();    // of a job: random, so that two jobs have different names

// Makes a new file that only its owner can read and write. Throws Error{file}, also if the file exists.
void make_secret_file(const std::string& path);

}  // namespace anello::launch
