#include <anello/testing.hpp>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/bootstrap.hpp"

namespace anello {
namespace {

// The exchange of blobs between threads: the rendezvous of a world in one process.
class Hall {
 public:
  Hall(int ranks, std::chrono::milliseconds limit) : limit_(limit), blobs_(std::size_t(ranks)) {}

  std::vector<std::string> exchange(int rank, std::string blob) {
    std::unique_lock lock(mutex_);
    blobs_[std::size_t(rank)] = std::move(blob);
    const std::uint64_t round = round_;
    if (++there_ == blobs_.size()) {
      complete_ = std::exchange(blobs_, std::vector<std::string>(blobs_.size()));
      there_ = 0;
      round_++;
      changed_.notify_all();
    }
    if (!changed_.wait_for(lock, limit_, [&] { return closed_ || round_ != round; }))
      throw Error(Code::rendezvous,
                  text("only ", there_, " of ", blobs_.size(), " ranks came before ANELLO_START_TIMEOUT ran out"));
    if (round_ == round) throw Error(Code::rendezvous, "another rank failed at start");
    return complete_;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> blobs_, complete_;
  std::size_t there_ = 0;
  std::uint64_t round_ = 0;
  bool closed_ = false;
};

std::string random_job() {
  std::random_device random;
  return text("threads-", random(), "-", random());
}

}  // namespace

void run_world(int ranks, const std::function<void(World&)>& program, const Settings& settings) {
  if (ranks < 1) throw Error(Code::invalid_argument, text("run_world: ", ranks, " ranks; at least one is needed"));
  Hall hall(ranks, settings.start_timeout);
  std::mutex mutex;
  std::exception_ptr first;
  const auto keep_first = [&] {
    const std::lock_guard lock(mutex);
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
      world.emplace(WorldMaker::make(
          identity, [&](std::string blob) { return hall.exchange(rank, std::move(blob)); }, settings));
      program(*world);
    } catch (const std::exception& e) {
      keep_first();
      hall.close();
      if (world) world->abort(e.what());
    } catch (...) {
      keep_first();
      hall.close();
      if (world) world->abort("an exception of unknown type");
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; rank++) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace anello
