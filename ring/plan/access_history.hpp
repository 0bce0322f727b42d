// Records which items (steps) last read and wrote each part of one memory. PlanBuilder derives the order of items from
// these records. This class is an interval map, so the work for a step depends on how many parts the step overlaps, not
// on the number of earlier steps.
#pragma once
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "ring/base/check.hpp"

namespace anello::plan {

class AccessHistory {
 public:
  struct Touch {
    std::uint32_t item;
    // Position in the operation = position in the memory + shift; one item can stream after another item only if the
    // shifts of both are equal.
    std::int64_t shift;
  };

  explicit AccessHistory(std::uint64_t elems) : elems_(elems) { pieces_[0] = {}; }

  // Records that `self` reads [begin, end). Calls after(touch) for each earlier write to this range, because the read
  // must wait for it.
  template <class After>
  void read(std::uint64_t begin, std::uint64_t end, Touch self, After after) {
    const auto last = split(end);
    for (auto piece = split(begin); piece != last; ++piece) {
      if (piece->second.writer) after(*piece->second.writer);
      piece->second.readers.push_back(self);
    }
  }

  // Records a write by `self`. Calls after(touch) for every earlier item for which the write must wait. If the last
  // write was read since, calls after(touch) only for the readers, because the readers have waited for the writer.
  template <class After>
  void write(std::uint64_t begin, std::uint64_t end, Touch self, After after) {
    const auto last = split(end);
    const auto first = split(begin);
    for (auto piece = first; piece != last; ++piece) {
      for (const Touch& reader : piece->second.readers) after(reader);
      if (piece->second.readers.empty() && piece->second.writer) after(*piece->second.writer);
    }
    pieces_.erase(std::next(first), last);
    first->second = {self, {}};
  }

 private:
  struct Piece {
    std::optional<Touch> writer;
    std::vector<Touch> readers;
  };
  // By the beginning of each piece. A piece ends where the next piece begins, or at the memory's end.
  using Pieces = std::map<std::uint64_t, Piece>;

  // Returns the piece that begins at `at`. Divides a piece there if necessary.
  Pieces::iterator split(std::uint64_t at) {
    ANELLO_CHECK(at <= elems_);
    if (at == elems_) return pieces_.end();
    auto next = pieces_.lower_bound(at);
    if (next != pieces_.end() && next->first == at) return next;
    return pieces_.emplace_hint(next, at, Piece(std::prev(next)->second));
  }

  std::uint64_t elems_;
  Pieces pieces_;
};

}  // namespace anello::plan
