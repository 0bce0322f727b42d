// Makes a process a rank of a World. Defined in rendezvous/init.cpp.
#pragma once
#include <anello/export.h>
#include <anello/settings.hpp>
#include <anello/world.hpp>

ANELLO_API_BEGIN
namespace anello {

// Joins the world that the environment describes. `anello run`, srun, mpirun, mpiexec and torchrun set variables with
// this process's rank and the number of ranks. A person who starts ranks by hand sets ANELLO_SIZE, ANELLO_RENDEZVOUS
// and similar variables. Without any such variable, the world has one rank. Blocks until this rank has the address
// where the ranks meet, and then until all have joined, each time for at most ANELLO_START_TIMEOUT. Throws
// Error{configuration, rendezvous, network, unauthorized, protocol}.
//
// Standard descriptors that are closed become /dev/null, so that the program's output cannot get into a connection.
//
// The first call installs a handler for exceptions that are not caught (std::set_terminate). The handler aborts the
// worlds of this process, so that all ranks throw an Error with the exception's text. Then it calls the handler that
// was installed before. If that was the default handler, and the exception is an anello::Error, the process ends with
// one line on standard error and status 1, without a core file. A handler that the program installs later replaces this
// one.
[[nodiscard]] World init();
// Like init(), with these settings instead of the ANELLO_ variables of the environment.
[[nodiscard]] World init(const Settings& settings);

}  // namespace anello
ANELLO_API_END
