// How a process becomes a rank of a World. Defined in rendezvous/init.cpp.
#pragma once
#include <anello/export.h>
#include <anello/settings.hpp>
#include <anello/world.hpp>

ANELLO_API_BEGIN
namespace anello {

// Joins the world that the environment describes: a launcher, or a person, sets ANELLO_SIZE, ANELLO_RENDEZVOUS and the
// other variables. If they are not set, the result is a world of one rank. Blocks until all ranks have joined, but not
// longer than ANELLO_START_TIMEOUT. Throws Error{configuration, rendezvous, network, unauthorized, protocol}.
[[nodiscard]] World init();
// The same with these settings instead of the environment's.
[[nodiscard]] World init(const Settings& settings);

}  // namespace anello
ANELLO_API_END
