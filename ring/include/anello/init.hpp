// How a process becomes a rank of a World. Defined in rendezvous/init.cpp.
#pragma once
#include <anello/export.h>
#include <anello/settings.hpp>
#include <anello/world.hpp>

ANELLO_API_BEGIN
namespace anello {

// Joins the world that the environment describes: `anello run`, srun, mpirun, mpiexec and torchrun set variables that
// say which rank of how many this process is, or a person sets ANELLO_SIZE, ANELLO_RENDEZVOUS and the like. If nothing
// says that there are other ranks, the result is a world of one rank. Blocks until this rank knows where the others
// meet, and then until all have joined, each time for ANELLO_START_TIMEOUT at most. Throws Error{configuration,
// rendezvous, network, unauthorized, protocol}.
//
// Standard descriptors that are closed become /dev/null, so that what the program prints gets into no connection.
//
// The first call installs a handler for exceptions that are not caught (std::set_terminate). It aborts the worlds of
// this process, so that all ranks throw an Error with the exception's text, and calls the handler that was there
// before. If that was the default one and the exception is an anello::Error, the process ends with one line on standard
// error and status 1, without a core file. A handler that the program installs later replaces this one.
[[nodiscard]] World init();
// The same with these settings instead of the environment's ANELLO_ variables.
[[nodiscard]] World init(const Settings& settings);

}  // namespace anello
ANELLO_API_END
