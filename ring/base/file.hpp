// Writing files. Any thread.
#pragma once
#include <string>
#include <string_view>

#include "ring/base/descriptor.hpp"

namespace anello {

// All of it. Throws Error{file} that names `path`.
void write_all(const Descriptor& file, const std::string& path, std::string_view bytes);

// So that whoever reads the file sees all of it, or what was there before: makes a new one beside it and renames it; a
// link in its place is replaced, not followed. Throws Error{file} that names `path`, and then leaves nothing behind.
void replace_file(const std::string& path, std::string_view bytes);

}  // namespace anello
