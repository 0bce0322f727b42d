// A world inside one process, for tests and experiments: each rank is a thread. The ranks communicate through shared
// memory or through real sockets on loopback; ANELLO_TRANSPORT decides. Link anello::testing, or anello::anello, which
// contains anello::testing.
#pragma once
#include <anello/export.h>
#include <anello/world.hpp>
#include <functional>

ANELLO_API_BEGIN
namespace anello {

// Runs `program` on `ranks` threads, each with its own World object, and blocks until all threads have ended. If a
// thread throws, its rank aborts the world, so that the other threads do not wait for it. When all threads have ended,
// run_world() throws the exception that came first. Rank, size, rendezvous and the other settings of the kind "given"
// are ignored. Flight recorder files are written only if `settings` name a folder for them.
void run_world(int ranks, const std::function<void(World&)>& program,
               const Settings& settings = Settings::from_environment());

}  // namespace anello
ANELLO_API_END
