// The data that arrives on one stream: pieces that follow each other, each at a constant rate. Pure. The times that
// callers pass must never decrease.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace anello::bench {

class Inflow {
 public:
  // Adds a piece that begins to arrive now or later, after the piece before it.
  void add(double begins_us, std::uint64_t elems, double elem_us) { pieces_.push_back({begins_us, elems, elem_us}); }

  std::uint64_t available(double now_us) {
    while (first_ < pieces_.size() && pieces_[first_].ends_us() <= now_us) complete_ += pieces_[first_++].elems;
    if (first_ < pieces_.size()) return complete_ + pieces_[first_].elems_by(now_us) - taken_;
    pieces_.clear();
    first_ = 0;
    return complete_ - taken_;
  }
  void take(std::uint64_t elems) { taken_ += elems; }

  // Returns the time at which `elems` will be available; empty if fewer have been added. Call available() first.
  std::optional<double> when(std::uint64_t elems) const {
    std::uint64_t wanted = taken_ + elems - complete_;
    for (std::size_t i = first_; i < pieces_.size(); wanted -= pieces_[i++].elems)
      if (wanted <= pieces_[i].elems) return pieces_[i].begins_us + double(wanted) * pieces_[i].elem_us;
    return std::nullopt;
  }

 private:
  struct Piece {
    double begins_us;
    std::uint64_t elems;
    double elem_us;

    double ends_us() const { return begins_us + double(elems) * elem_us; }
    std::uint64_t elems_by(double now_us) const {
      constexpr double kRounding = 1e-2;  // rounding, even over hours, must not make an element late
      if (now_us <= begins_us) return 0;
      return std::min(elems, std::uint64_t((now_us - begins_us) / elem_us + kRounding));
    }
  };
  std::vector<Piece> pieces_;
  std::size_t first_ = 0;                   // the first piece that has not arrived completely
  std::uint64_t complete_ = 0, taken_ = 0;  // elements
};

}  // namespace anello::bench
