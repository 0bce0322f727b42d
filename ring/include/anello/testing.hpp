// Multi-process code on one machine, in one process: n ranks as threads, over shared memory or real sockets on
// loopback, as ANELLO_TRANSPORT says.
// Link anello::testing.
#pragma once
#include <anello/export.h>
#include <anello/world.hpp>
#include <functional>

ANELLO_API_BEGIN
namespace anello {

// Runs `program` on `ranks` threads, each with its own World, and waits for all of them. An exception in one of them
// aborts the world of the others; the first one thrown is thrown again here, after every thread has ended.
// Ranks, addresses and sizes in `settings` are ignored; the flight recorder is written to a given folder only.
void run_world(int ranks, const std::function<void(World&)>& program,
               const Settings& settings = Settings::from_environment());

}  // namespace anello
ANELLO_API_END
