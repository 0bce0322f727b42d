// Runs an Execution by hand: words as tensors, an arithmetic that shows the order of its operands, and the two ends of
// a link that moves a few bytes at a time. For tests.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "ring/run/execution.hpp"

namespace anello::run {

using Words = std::vector<std::uint32_t>;

// Neither commutative nor associative, so that the result shows the order of operands.
inline void lopsided(void* out, const void* left, const void* right, std::size_t elems) {
  for (std::size_t i = 0; i < elems; i++)
    static_cast<std::uint32_t*>(out)[i] =
        3 * static_cast<const std::uint32_t*>(left)[i] + 5 * static_cast<const std::uint32_t*>(right)[i];
}
inline std::uint32_t lopsided(std::uint32_t left, std::uint32_t right) {
  return 3 * left + 5 * right;
}
inline constexpr Arithmetic kLopsided{2, lopsided, 2};

inline Words numbers(std::size_t count, std::uint32_t first) {
  Words words(count);
  std::iota(words.begin(), words.end(), first);
  return words;
}
inline std::byte* bytes_of(Words& words) {
  return reinterpret_cast<std::byte*>(words.data());
}
inline Buffer whole(Words& words) {
  return {bytes_of(words), words.size()};
}

// A list of pieces over one vector, with a gap of one element after each piece. The gaps show wrong writes.
struct Pieces {
  Words memory;
  std::vector<Buffer::Piece> list;

  Pieces(const std::vector<std::size_t>& counts, std::uint32_t first) {
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t(0));
    memory.assign(total + counts.size(), kGap);
    std::uint64_t end = 0;
    std::size_t at = 0;
    for (const std::size_t count : counts) {
      for (std::size_t i = 0; i < count; i++) memory[at + i] = first++;
      list.push_back({end += count, bytes_of(memory) + 4 * at, count});
      at += count + 1;
    }
  }
  Buffer buffer() const { return Buffer(list); }
  Words values() const {
    Words all;
    for (const Buffer::Piece& piece : list) {
      const auto* first = reinterpret_cast<const std::uint32_t*>(piece.data);
      all.insert(all.end(), first, first + piece.count);
      EXPECT_EQ(first[piece.count], kGap) << "written past a piece";
    }
    return all;
  }
  static constexpr std::uint32_t kGap = 0xdeadbeef;
};

// Returns the memory for the next bytes of `stream`; empty if the stream wants none.
inline Bytes receivable(Execution& execution, std::uint32_t stream) {
  std::array<Bytes, 1> place;
  return execution.receivable(stream, place) ? place[0] : Bytes();
}

// Gives these bytes to `stream`, up to `most` at a time, as long as the stream accepts them. Returns the number of
// accepted bytes.
inline std::size_t feed(Execution& execution, std::uint32_t stream, ConstBytes bytes, std::size_t most) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const Bytes place = receivable(execution, stream);
    if (place.empty()) break;
    const std::size_t now = std::min({place.size(), most, bytes.size() - taken});
    std::memcpy(place.data(), bytes.data() + taken, now);
    execution.received(stream, now);
    taken += now;
  }
  return taken;
}

// Takes the bytes that `stream` can send, up to `most` at a time; with `fills`, computed bytes are computed in place.
inline std::vector<std::byte> drain(Execution& execution, std::uint32_t stream, std::size_t most, bool fills = false) {
  std::vector<std::byte> out;
  std::array<ConstBytes, 3> pieces;
  while (execution.can_send(stream)) {
    if (fills && execution.to_make(stream) > 0) {
      std::vector<std::byte> room(std::max(most, Execution::kMaxElemBytes));
      const std::size_t made = execution.fill(stream, room);
      EXPECT_GT(made, 0);
      out.insert(out.end(), room.begin(), room.begin() + std::ptrdiff_t(made));
      continue;
    }
    const std::size_t count = execution.sendable(stream, pieces);
    EXPECT_GT(count, 0);
    std::size_t moved = 0;
    for (std::size_t k = 0; k < count && moved < most; k++) {
      EXPECT_FALSE(pieces[k].empty());
      const ConstBytes part = pieces[k].first(std::min(pieces[k].size(), most - moved));
      out.insert(out.end(), part.begin(), part.end());
      moved += part.size();
    }
    execution.sent(stream, moved);
  }
  return out;
}

inline Words words_of(const std::vector<std::byte>& bytes) {
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), 4 * words.size());
  return words;
}

inline ConstBytes raw(const Words& words) {
  return std::as_bytes(std::span(words));
}

inline Words combined(const Words& left, const Words& right) {
  Words out(left.size());
  for (std::size_t i = 0; i < out.size(); i++) out[i] = lopsided(left[i], right[i]);
  return out;
}

}  // namespace anello::run
