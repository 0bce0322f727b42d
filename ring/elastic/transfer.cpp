#include "ring/elastic/transfer.hpp"

#include <algorithm>
#include <utility>

#include "ring/elastic/stripes.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::elastic {
namespace {

// Returns the parts of the memory that are in the stripe.
std::vector<Tensor> within(const Stripe& stripe, std::span<const Bytes> memory) {
  std::vector<Tensor> pieces;
  std::uint64_t at = 0;
  for (const Bytes& run : memory) {
    const std::uint64_t begin = std::max(stripe.begin, at), end = std::min(stripe.end, at + run.size());
    if (begin < end) pieces.emplace_back(reinterpret_cast<std::uint8_t*>(run.data() + (begin - at)), end - begin);
    at += run.size();
  }
  return pieces;
}

// Starts the broadcasts of the group's first rank. Each large piece has its own broadcast, which takes about two thirds
// of the time that the piece would take in a list. All small pieces go as one list, because each operation has its own
// messages.
void start(Group& group, const std::vector<Tensor>& pieces, std::uint64_t revision, std::vector<Work>& works) {
  const Options options{.name = "state of the job", .consistency_token = revision};
  std::vector<Tensor> small;
  for (const Tensor& piece : pieces)
    if (piece.count >= kStripeBlock)
      works.push_back(group.broadcast_async(piece, 0, options));
    else
      small.push_back(piece);
  if (!small.empty()) works.push_back(group.broadcast_async(small, 0, options));
}

}  // namespace

std::uint64_t total_bytes(std::span<const Bytes> memory) {
  std::uint64_t bytes = 0;
  for (const Bytes& run : memory) bytes += run.size();
  return bytes;
}

std::optional<Group> group_of(World& world, int source, const std::vector<int>& receivers) {
  const bool is_member = world.rank() == source || std::ranges::binary_search(receivers, world.rank());
  if (!is_member || receivers.empty()) return {};
  std::vector<int> members{source};
  members.insert(members.end(), receivers.begin(), receivers.end());
  return world.group(members);
}

std::vector<Group> transfer(World& world, const Decision& decision, std::span<const Bytes> memory) {
  std::vector<Group> groups;
  std::vector<Work> works;
  for (const Stripe& stripe : stripes_of(decision, world::WorldMaker::layout(world).nodes, total_bytes(memory))) {
    std::optional<Group> group = group_of(world, stripe.source, stripe.receivers);
    if (!group) continue;
    start(*group, within(stripe, memory), decision.revision, works);
    groups.push_back(std::move(*group));
  }
  wait_all(works);
  return groups;
}

}  // namespace anello::elastic
