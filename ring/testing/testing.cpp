#include <exception>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/testing/in_process_exchange.hpp"
#include "ring/testing/run_world.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello {
namespace {

std::string random_job() {
  std::random_device random;
  return text("threads-", random(), "-", random());
}

}  // namespace

void run_world(int ranks, const std::function<void(World&)>& program, const Settings& settings) {
  run_world(ranks, program, settings, [](int, std::vector<std::string> blobs) { return blobs; });
}

void run_world(int ranks, const std::function<void(World&)>& program, const Settings& given, const Seen& seen) {
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, text("run_world: ", ranks, " ranks; at least one is needed"));
  Settings settings = given;
  if (settings.flight_dir.empty())
    settings.flight_dir = "none";  // the job's name is random, so no later job would replace the files
  InProcessExchange exchange(ranks, settings.start_timeout);
  Mutex mutex;
  std::exception_ptr first;
  const auto keep_first = [&] {
    const MutexLock lock(mutex);
    if (!first) first = std::current_exception();
  };
  const std::string job = random_job();

  const auto rank_main = [&](int rank) {
    std::optional<World> world;
    try {
      const Identity identity{.job = job,
                              .rank = rank,
                              .size = ranks,
                              .local_rank = rank,
                              .local_size = ranks,
                              .host = "localhost",
                              .address = "127.0.0.1"};
      world.emplace(world::WorldMaker::make(
          identity, [&](std::string blob) { return seen(rank, exchange.exchange(rank, std::move(blob))); }, settings,
          [&](std::chrono::milliseconds limit) { exchange.check(limit); }));
      program(*world);
    } catch (const std::exception& e) {
      keep_first();
      exchange.close();
      if (world) world->abort(e.what());
    } catch (...) {
      keep_first();
      exchange.close();
      if (world) world->abort("an exception of unknown type");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; rank++) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace anello
