// Writing files. Any thread.
#pragma once
#include <string>
#include <string_view>

#include "ring/base/descriptor.hpp"

namespace anello {

// Writes all of `bytes`. Throws Error{file} that names `path`.
void write_all(const Descriptor& file, const std::string& path, std::string_view bytes);

enum class ReadableBy { all, owner };
enum class Until { renamed, on_disk };  // on_disk: the new content survives a crash of the machine

// Replaces a file so that a reader sees the old or the new content, never a part: writes a new file beside it, then
// renames the new file. A symbolic link is kept, and the file that it names is replaced. Refuses everything except a
// regular file, for example /dev/null, and also an open file, for example /dev/stdout. Throws Error{file} that names
// `path`. After an error, no other file remains. `path` then has the old content, or, if only synchronizing the folder
// to the disk failed, the new content.
void replace_file(const std::string& path, std::string_view bytes, ReadableBy readers = ReadableBy::all,
                  Until until = Until::renamed);

}  // namespace anello
