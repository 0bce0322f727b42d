// Elastic jobs: ranks may end and others join, and the training goes on with the state of the ranks that live. `anello
// rendezvous --min-np 2` brings the processes together. A process makes a world, trains in it until the world ends, and
// makes the next one. Defined in rendezvous/elastic.
//
//   anello::elastic::State state;
//   state.add("weights", std::as_writable_bytes(std::span(weights)));
//   const bool trained = anello::elastic::run(state, [&](anello::elastic::Job& job) {
//     while (state.revision() < steps) {
//       auto gradient = gradient_of_share(state.revision(), job.world().rank(), job.world().size());
//       job.world().allreduce(gradient);
//       job.commit([&] { update(weights, gradient); });
//     }
//   });
#pragma once
#include <anello/export.h>
#include <anello/elastic_state.hpp>
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <anello/world.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

ANELLO_API_BEGIN
namespace anello::elastic {

// How this process came into its newest world.
struct Change {
  std::uint32_t generation = 0;  // number of the world
  int rank = 0, size = 1;
  std::uint64_t revision = 0;           // the number of commits of the job so far
  std::vector<int> sources, receivers;  // ranks that had the newest state, and ranks that got it from them
  std::uint64_t bytes = 0;              // the number of bytes that each receiver got
  std::chrono::nanoseconds paused{0};   // time from the end of the last world, or from joining, until training goes on
  std::string reason;  // such as "left: rank 3 (node-a, pid 7): ...; joined: ..."; empty in the first world
};

struct Options {
  // true: the states of all ranks are compared at each change, and after the commits 1, 2, 4, 8, ...
  bool verify = true;
  std::function<void(const Change&)> on_change;  // called on all ranks before the training goes on
};

// One process's part in an elastic job. run() is the usual way to use it. One thread.
class Job {
 public:
  // Thrown by commit(): the world ends here as planned.
  struct WorldEnds {};

  // Joins the job. Blocks until the rendezvous server is found, for ANELLO_START_TIMEOUT at most. Throws
  // Error{configuration, network, unauthorized, protocol}. Borrows the state.
  explicit Job(State& state, Options options = {}, const Settings& settings = Settings::from_environment());
  ~Job();  // if finish() was not called, the others go on without this process
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Calls enter() and synchronize() until both succeed, or until this process cannot go on. Returns false if the
  // others have finished. Throws Error{rendezvous, mismatch, diverged}; its message says what to do.
  bool next();

  // Leaves the world and makes the next one. Blocks until every process of the last world has come or has ended, and
  // enough processes are there. Returns false if the others have finished. Throws Error{rendezvous, mismatch}, and
  // Error{invalid_argument} after this process's part has ended.
  bool enter();
  World& world();                // the newest world; the reference is valid until the next enter()
  const Change& change() const;  // how this process came into the newest world; valid until the next enter()

  // Gives all ranks of the world the newest state. All ranks call it once in each world, before the first commit;
  // blocks. Throws the errors of collectives, and Error{rendezvous, mismatch, diverged}. If survives() is true for the
  // error, enter() may follow. Otherwise the other processes have received the error, and this process must end.
  void synchronize();

  // synchronize() in two parts, for a program that sends its state by its own collectives between the two calls. Such a
  // program passes a State without entries to the constructor. The first part decides which ranks send: afterwards
  // change() has the sources and the receivers. From then on a receiver is not clean: if anything fails before the
  // second part has succeeded, the receiver cannot be a source in the next world.
  //
  // `manifest`: a line for each entry, with its name, kind and size. Error{mismatch} names the first line that differs.
  void begin_synchronization(std::string_view manifest);
  // Copies these tensors from the sources to the receivers: each source sends a part of the elements, and receives
  // nothing. All ranks call it between the two parts, with tensors of the same sizes; it may be called several times.
  // Blocks, and throws the errors of collectives. The tensors must be equal on all sources, so give their hashes to
  // end_synchronization(): the comparison finds a receiver that got parts of different states.
  void deliver(std::span<const Tensor> tensors);
  // Compares the names and hashes of the entries between all ranks. All ranks must give the entries in the same order.
  // Throws Error{diverged} with the entry and the ranks. `bytes`: the size of the state that each receiver got; for
  // change().
  void end_synchronization(const std::vector<EntryHash>& entries, std::uint64_t bytes = 0);

  // Ends a step: see State::commit(). Then throws WorldEnds if the world ends here because processes join. With
  // Options::verify, it compares the entries of all ranks after the commits 1, 2, 4, 8 and so on. If entries differ, it
  // throws Error{diverged} with the entry and the ranks. The comparison may also throw the errors of collectives.
  void commit(const std::function<void()>& update);
  // commit() in two parts, for a program that cannot pass a function. The program writes the entries between the two
  // calls. If writing fails, do not call the second part: then the state stays unclean. Returns true if the world ends
  // here as planned.
  void begin_commit();
  bool end_commit();
  // Compares the names and hashes of the entries of all ranks after the same commit, for a program that sends its state
  // itself. All ranks call it, with the entries in the same order. Blocks. Throws Error{diverged} with the entry and
  // the ranks, and the errors of collectives.
  void compare(const std::vector<EntryHash>& entries);

  // True if the world will end at one of the next commits, because processes join or leave. Any thread,
  // at any time.
  bool change_is_planned() const;

  // True if the world has ended with this error because of another rank, so that enter() or next() may follow.
  bool survives(const Error& error) const;
  // Declares that the training has ended on this rank. Blocks until it has ended on all ranks, or until a rank's
  // process has ended; in the second case the others may redo their last step. If another rank's training goes on,
  // throws Error{mismatch}.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Calls train(job) in each world, until it returns, and then returns true. Returns false if the other processes have
// finished without this one; then this process's state is not the result. Throws the exceptions of train(), except for
// errors that this process survives.
template <class Train>
[[nodiscard]] bool run(State& state, Train&& train, Options options = {},
                       const Settings& settings = Settings::from_environment()) {
  Job job(state, std::move(options), settings);
  while (job.next()) {
    try {
      train(job);
      job.finish();
      return true;
    } catch (const Job::WorldEnds&) {
    } catch (const Error& error) {
      if (!job.survives(error)) throw;
    }
  }
  return false;
}

}  // namespace anello::elastic
ANELLO_API_END
