// One memory, and who touched which part of it last: what the builder derives order from. An interval map, so that the
// work grows with what a step overlaps and not with all that came before.
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
    std::int64_t shift;  // from the memory's coordinates to the operation's: only equal shifts can stream
  };

  explicit AccessHistory(std::uint64_t elems) : elems_(elems) { pieces_[0] = {}; }

  // Calls after(touch) for everything that a read must wait for.
  template <class After>
  void read(std::uint64_t begin, std::uint64_t end, Touch self, After after) {
    const auto last = split(end);
    for (auto piece = split(begin); piece != last; ++piece) {
      if (piece->second.writer) after(*piece->second.writer);
      piece->second.readers.push_back(self);
    }
  }

  // The same for a write. Waiting for the readers implies waiting for the writer they read from.
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
  using Pieces = std::map<std::uint64_t, Piece>;  // by their beginning, up to the next or the memory's end

  // The piece that begins at `at`, which is made if need be.
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
