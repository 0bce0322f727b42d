// A text of one rank, for all of its group. Collective.
#pragma once
#include <anello/group.hpp>
#include <string>

namespace anello {

// The root's text. Errors as of broadcast.
std::string broadcast_text(int root, Group& group, std::string mine, const Options& options);

}  // namespace anello
