// A link that records its use, and a peer's messages on it. For tests.
#pragma once
#include <anello/error.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/link/memory_link.hpp"
#include "tests/run/by_hand.hpp"

namespace anello::run {

// A link that accepts all bytes, or `takes` bytes in each call, and records the sizes of the pieces. It shows the first
// `cut` bytes of `incoming`. When these have been consumed, it shows the rest.
class RunsLink final : public link::MemoryLink {
 public:
  std::size_t send_from(std::span<const ConstBytes> pieces) override {
    throw_if_broken();
    sent.clear();
    for (const ConstBytes piece : pieces) sent.push_back(piece.size());
    return std::min(takes, std::accumulate(sent.begin(), sent.end(), std::size_t(0)));
  }
  bool prefers_one_piece() const override { return joins; }
  std::size_t recv_into(std::span<const Bytes> pieces) override {
    std::size_t bytes = 0;
    for (const Bytes piece : pieces) {
      const Bytes run = peek();
      const std::size_t some = std::min(run.size(), piece.size());
      if (some == 0) break;
      std::copy_n(run.begin(), some, piece.begin());
      consume(some);
      bytes += some;
    }
    return bytes;
  }
  link::MemoryLink* memory() override { return shows ? this : nullptr; }
  Bytes peek() override {
    looks++;
    throw_if_broken();
    const std::size_t end = consumed < cut ? cut : incoming.size();
    if (end == consumed) return {};
    return std::as_writable_bytes(std::span(incoming)).first(end).subspan(consumed);
  }
  // Overwrites the consumed bytes, because the sender writes there again.
  void consume(std::size_t bytes) override {
    std::fill_n(incoming.begin() + std::ptrdiff_t(consumed), bytes, '\xee');
    consumed += bytes;
  }
  void begin(bool sending, bool may_refer) override { begun.emplace_back(sending, may_refer); }
  bool has_arrived() override { return false; }
  bool want(link::Wanted /*wanted*/, link::Waiter& /*waiter*/) override { return true; }

  void throw_if_broken() const {
    if (broken) throw Error(ErrorCode::network, "broken");
  }

  bool joins = true, shows = true, broken = false;
  std::vector<std::pair<bool, bool>> begun;
  std::size_t takes = SIZE_MAX;
  std::vector<std::size_t> sent;
  std::string incoming;  // the elements after the signature are aligned
  std::size_t cut = 0, consumed = 0;
  int looks = 0;
};

// Returns a signature and its data in their wire format.
inline std::string message(const Signature& signature, const Words& data) {
  EncodedSignature bytes;
  encode(signature, bytes);
  std::string all(bytes.data(), bytes.size());
  return all.append(reinterpret_cast<const char*>(data.data()), 4 * data.size());
}

}  // namespace anello::run
