// The state that an elastic job keeps when ranks end or join: parameters, an optimizer's memory, counters. In each new
// world, the ranks with the newest state send it to the other ranks, and all ranks compare their entries. The program
// owns the memory, and a State borrows it. No copy is kept, except of memory from add_own(). So a job in which no rank
// has a complete state must begin again from a checkpoint. One thread at a time.
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

  // These functions add an entry. Names are lines of text, and each name is used once. All ranks add the same entries
  // in the same order, with the same sizes, before they synchronize. None of these functions blocks. If an argument is
  // wrong, they throw Error{invalid_argument} that names the entry.
  //
  // Memory that is equal on all ranks at each commit. It must stay where it is as long as the State exists.
  void add(std::string name, std::span<std::byte> replicated);
  // Memory whose values may differ between ranks, such as the statistics of a batch norm. They are not compared. The
  // program may write them at any time: a copy of each commit is kept, and copied back if the next step fails. A rank
  // that receives the state, also when the job begins, gets the values of the first rank that has the state.
  void add_own(std::string name, std::span<std::byte> own);
  // A small value that is equal on all ranks at each commit, such as the number of a step. save() returns the value as
  // text, and load() sets the value from the text of another rank. A synchronization calls both. Ranks with equal
  // values must return equal texts, because texts are compared too. The synchronization passes on the exceptions of
  // both functions.
  void add_small(std::string name, std::function<std::string()> save, std::function<void(std::string_view)> load);

  // Call this when the program has written all entries, for example from a checkpoint when a job begins. Then the
  // entries count as complete, even if this rank had received a part of another rank's initial state before. If the
  // state has been synchronized already, throws Error{invalid_argument}.
  void restored();

  std::uint64_t revision() const;  // the number of completed commits of the job; 0 at its beginning
  bool holds() const;              // true if the state has been synchronized; false at the beginning of a process
  // True if the entries are those of revision(). False during a commit and while this rank receives the state. If one
  // of these fails, it stays false until a synchronization succeeds.
  bool clean() const;

  // Ends a step: calls update(), which writes the entries and must call no collective; then adds one to the revision.
  // If update() throws, commit() throws the same exception, and the state stays unclean: this rank will receive the
  // state of another rank. If the state is not clean, or has not been synchronized, throws Error{invalid_argument}.
  //
  // There is no form that is called after the entries were written. If a collective failed between the writing and such
  // a call, the step would be applied but not counted, and the next world would apply it a second time.
  void commit(const std::function<void()>& update);

 private:
  friend class StateAccess;  // for the engine's own rooms
  std::unique_ptr<Contents> contents_;
};

}  // namespace anello::elastic
ANELLO_API_END
