// Checkpoints that one rank writes for all ranks.
#pragma once
#include <anello/group.hpp>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

// Rank 0 of the group replaces the content of the file at `path` by `bytes`; the `bytes` of other ranks are ignored. A
// reader sees the old or the new content, never a mixture. A collective: it blocks until the new content is on rank 0's
// disk. If rank 0 cannot write the file, Error{file} with the reason is thrown on all ranks, and the world goes on. In
// that case the file still has the old content, or, if only synchronizing the folder to the disk failed, the new
// content.
void save_on_rank_0(Group& group, const std::string& path, std::string_view bytes);

}  // namespace anello
ANELLO_API_END
