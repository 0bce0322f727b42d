// Makes secrets. They are never printed or logged.
#pragma once
#include <string>

#include "ring/net/auth.hpp"

namespace anello::launch {

using net::make_secret;
std::string make_name();  // a job's name: random, so that two jobs have different names

// Makes the missing folders above `path`; only their owner may use them. Throws Error{file}.
void make_private_folders(const std::string& path);

// Makes a new file that only its owner can read and write. Throws Error{file}, also if the file exists.
void make_secret_file(const std::string& path);

}  // namespace anello::launch
