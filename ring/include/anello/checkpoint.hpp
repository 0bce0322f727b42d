// Checkpoints that one rank writes for all.
#pragma once
#include <anello/group.hpp>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

// Rank 0 of the group replaces the file at `path` by `bytes`; those of other ranks are ignored. A reader sees the old
// or the new content, never a part. A collective: all ranks return when the new content is on the disk. If rank 0 could
// not write it, Error{file} on all ranks says why, and the world goes on. The old file is there then, or the new one if
// only the folder could not be brought to the disk.
void save_on_rank_0(Group& group, const std::string& path, std::string_view bytes);

}  // namespace anello
ANELLO_API_END
