// From the environment to a World. Defined in rendezvous/init.cpp.
#pragma once
#include <anello/export.h>
#include <anello/settings.hpp>
#include <anello/world.hpp>

ANELLO_API_BEGIN
namespace anello {

// Joins the ranks that a launcher (or a person) started: rank, size and the rendezvous come from ANELLO_* variables.
// With none of them set the program is a world of one. Blocks until every rank is there, ANELLO_START_TIMEOUT at most.
// Throws Error{configuration, rendezvous, network, unauthorized, protocol}.
World init();
World init(const Settings& settings);

}  // namespace anello
ANELLO_API_END
