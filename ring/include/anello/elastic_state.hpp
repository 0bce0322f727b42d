// The state that an elastic job keeps when ranks end or join: parameters, an optimizer's memory, counters. In each new
// world, the ranks with the newest state send it to the other ranks, and all ranks compare their entries. The program
// owns the memory, and a State borrows it: no copy is kept except for add_own(), so a job in which no rank has a
// complete state must begin again from a checkpoint. One thread at a time.
#pragma once
#include <anello/export.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace anello::elastic {
class Contents;
}

ANELLO_API_BEGIN
namespace anello::elastic {

// The hash by which ranks compare an entry of the state: XXH3 with 128 bits (Yann Collet, xxHash).
struct Hash {
  std::uint64_t high = 0, low = 0;
  static Hash of(std::span<const std::byte> bytes);  // pure; any thread
  friend bool operator==(const Hash&, const Hash&) = default;
};

// An entry that the program sends to other ranks itself; see Job::end_synchronization().
struct EntryHash {
  std::string name;
  Hash hash;
};

class State {
 public:
  State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  // Add an entry. Names are lines of text, and each is used once. All ranks add the same entries in the same order,
  // with the same sizes, before they synchronize. Nothing blocks. Error{invalid_argument} names the entry.
  //
  // Memory that is equal on all ranks at each commit. It must stay where it is as long as the State exists.
  void add(std::string name, std::span<std::byte> replicated);
  // Memory whose values may differ between ranks, such as the statistics of a batch norm. They are not compared. The
  // program may write them at any time: a copy of each commit is kept, and copied back if the next step fails. A rank
  // that receives the state, also when the job begins, gets the values of the first rank that has it.
  void add_own(std::string name, std::span<std::byte> own);
  // A small value that is equal on all ranks at each commit, such as the number of a step. save() returns it as text,
  // and load() takes the text of another rank; a synchronization calls both. Ranks with equal values must return equal
  // texts, because texts are compared too. The synchronization passes on the exceptions of both functions.
  void add_small(std::string name, std::function<std::string()> save, std::function<void(std::string_view)> load);

  // Call this when the program has written all entries, for example from a checkpoint when a job begins. Then the
  // entries count as complete, even if this rank had received a part of another rank's initial state before. Throws
  // Error{invalid_argument} if the state has been synchronized.
  void restored();

  std::uint64_t revision() const;  // the number of completed commits of the job; 0 at its beginning
  bool holds() const;              // whether the state has been synchronized; false at the beginning of a process
  // Whether the entries are those of revision(). False during a commit and while a rank receives the state, and after
  // one of these has failed, until a synchronization succeeds.
  bool clean() const;

  // Ends a step: calls update(), which writes the entries and must call no collective; then counts one revision more.
  // If update() throws, the exception passes on, and the state stays unclean: this rank will receive the state of
  // another rank. Error{invalid_argument} if the state is not clean, or has not been synchronized.
  //
  // There is no form that is called after the entries were written. A collective that fails between the two would leave
  // a step that is applied and not counted, and the next world would apply it a second time.
  void commit(const std::function<void()>& update);

 private:
  friend class StateAccess;  // for the engine's own rooms
  std::unique_ptr<Contents> contents_;
};

}  // namespace anello::elastic
ANELLO_API_END
