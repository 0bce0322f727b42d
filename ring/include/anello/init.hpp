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
//
// The first call installs a handler for exceptions that are not caught (std::set_terminate). It aborts the worlds of
// this process, so that all ranks throw an Error with the exception's text, and calls the handler that was there
// before. If that was the default one and the exception is an anello::Error, the process ends with one line on standard
// error and status 1, without a core file. A handler that the program installs later replaces this one.
[[nodiscard]] World init();
// The same with these settings instead of the environment's.
[[nodiscard]] World init(const Settings& settings);

}  // namespace anello
ANELLO_API_END
