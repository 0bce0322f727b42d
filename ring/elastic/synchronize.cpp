#include "ring/elastic/synchronize.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/elastic/gather.hpp"
#include "ring/elastic/report.hpp"
#include "ring/elastic/transfer.hpp"
#include "ring/elastic/verification.hpp"

namespace anello::elastic {
namespace {

using Texts = std::vector<std::string>;  // the texts of the small entries, in order
using Manifest = std::vector<group::NamedValue>;

// Throws a mismatch that names the first entry that differs. The reports have only hashes of the manifests, so the
// ranks compare the manifests themselves. All ranks take part, because they all decide alike.
void name_entry(World& world, const Manifest& manifest, int at_fault) try {
  group::require_same(world, manifest, {.name = "elastic manifest"});
} catch (const Error& error) {
  throw Error(error.code(), error.message(), error.code() == ErrorCode::mismatch ? at_fault : error.rank());
}

// Returns the decision, which is the same on all ranks. If this rank will receive the state, marks `state` as not clean
// now, because the transfer may fail halfway.
Decision decide_together(World& world, Contents& state, const Manifest& manifest, bool begun) {
  const Reports reports = gather_reports(world, report_of(state, manifest), begun);
  try {
    Decision decision = decide(reports.by_rank, reports.begun);
    if (std::ranges::binary_search(decision.receivers, world.rank())) state.receive();
    return decision;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) name_entry(world, manifest, error.rank());
    throw;
  }
}

Texts saved(const Contents& state) {
  Texts texts;
  for (const Entry& each : state.entries)
    if (each.is_small()) texts.push_back(each.save());
  return texts;
}

void load(const Contents& state, std::string_view received) {
  Reader in("small entries of the state", received);
  std::vector<std::pair<const Entry*, std::string>> all;
  for (const Entry& each : state.entries)
    if (each.is_small()) all.emplace_back(&each, in.str(in.left()));
  in.finish();  // throws if the message is damaged, before anything is loaded
  for (const auto& [entry, its] : all) entry->load(its);
}

enum class Values { equal, own };  // equal: the same on all ranks; own: each rank has its own

std::vector<Bytes> memory_of(const Contents& state, Values values) {
  std::vector<Bytes> memory;
  for (const Entry& each : state.entries)
    if (!each.is_small() && each.own == (values == Values::own)) memory.push_back(each.memory);
  return memory;
}

// Sends two things from the first source to the receivers: the small entries, as text, and the memory in which each
// rank has its own values. Returns the group of these ranks. `texts` matters only on the source.
std::optional<Group> transfer_from_first(World& world, const Decision& decision, const Contents& state,
                                         const Texts& texts) {
  if (std::ranges::none_of(state.entries, [](const Entry& each) { return each.own || each.is_small(); })) return {};
  std::optional<Group> group = group_of(world, decision.sources.front(), decision.receivers);
  if (!group) return {};
  Writer out;
  for (const std::string& each : texts) out.str(each);
  const std::string received = group::broadcast_text(
      0, *group, std::move(out).take(), {.name = "small entries of the state", .consistency_token = decision.revision});
  if (group->rank() != 0) load(state, received);
  for (const Bytes& each : memory_of(state, Values::own))
    group->broadcast(Tensor(reinterpret_cast<std::uint8_t*>(each.data()), each.size()), 0,
                     {.name = "a rank's own memory in the state", .consistency_token = decision.revision});
  return group;
}

std::vector<EntryHash> hashes_of(const Contents& state, const Texts& texts) {
  std::vector<EntryHash> hashes;
  auto small = texts.begin();
  for (const Entry& each : state.entries)
    if (!each.own)
      hashes.push_back(
          {each.name, Hash::of(each.is_small() ? std::as_bytes(std::span(*small++)) : ConstBytes(each.memory))});
  return hashes;
}

// Compares the hashes of all ranks. The entries have the same names on all ranks, in the same order.
void verify_together(World& world, const std::vector<EntryHash>& entries, const Decision& decision) {
  constexpr std::string_view kWhat = "elastic verification";
  if (entries.empty()) return;
  std::vector<std::string> names;
  Writer out;
  for (const EntryHash& each : entries) {
    names.push_back(each.name);
    encode(out, each.hash);
  }
  std::vector<std::vector<Hash>> hashes;
  const PartOptions options{.name = kWhat, .consistency_token = decision.revision};
  for (const std::string& each : gather(world, out.bytes(), options)) {
    Reader in(kWhat, each);
    for (std::vector<Hash>& its = hashes.emplace_back(); in.left() > 0;) its.push_back(decode_hash(in));
  }
  require_equal_entries(names, hashes, decision);
}

// Like verify_together(), but first compares the names of the entries, because no manifest has compared them.
void verify_named(World& world, const std::vector<EntryHash>& entries, const Decision& decision) {
  Manifest names;
  for (const EntryHash& each : entries) names.push_back({entry_name(names.size()), text("'", each.name, "'")});
  group::require_same(world, names, {.name = "elastic entries", .consistency_token = decision.revision});
  verify_together(world, entries, decision);
}

// Returns the decision of a world in which each rank is a source.
Decision all_have(std::uint64_t revision, int ranks) {
  Decision decision{.revision = revision};
  for (int rank = 0; rank < ranks; rank++) decision.sources.push_back(rank);
  return decision;
}

std::uint64_t bytes_of(const Contents& state, const Texts& texts) {
  std::uint64_t bytes = total_bytes(memory_of(state, Values::equal)) + total_bytes(memory_of(state, Values::own));
  for (const std::string& each : texts) bytes += each.size();
  return bytes;
}

}  // namespace

Synchronized synchronize(World& world, State& state, bool begun, bool verify) {
  const auto began = std::chrono::steady_clock::now();
  Contents& contents = StateAccess::contents(state);
  const Decision decision = decide_together(world, contents, manifest_of(contents, verify), begun);
  const bool receives = std::ranges::binary_search(decision.receivers, world.rank());
  if (contents.clean) contents.set_back();
  Texts texts = receives ? Texts() : saved(contents);
  Decision senders = decision;
  // Without a comparison, nothing would show that a receiver got parts of different states.
  if (!verify) senders.sources.resize(1);
  const std::vector<Group> groups = transfer(world, senders, memory_of(contents, Values::equal));
  const std::optional<Group> group = transfer_from_first(world, decision, contents, texts);
  if (receives) texts = saved(contents);
  if (verify) verify_together(world, hashes_of(contents, texts), decision);
  contents.settle(decision.revision);
  return {.revision = decision.revision,
          .sources = decision.sources,
          .receivers = decision.receivers,
          .bytes = decision.receivers.empty() ? 0 : bytes_of(contents, texts),
          .took = std::chrono::steady_clock::now() - began};
}

Decision begin_synchronization(World& world, State& state, std::string_view manifest, bool begun) {
  return decide_together(world, StateAccess::contents(state), manifest_of(manifest), begun);
}

// First compares the sizes: each rank divides the transfer by its own sizes, so a rank with other sizes would wait for
// broadcasts that no rank sends.
std::vector<Group> deliver(World& world, const Decision& decision, std::span<const Bytes> memory) {
  std::vector<group::NamedValue> sizes;
  for (const Bytes& each : memory)
    sizes.push_back({text("tensor ", sizes.size(), " to deliver"), text(each.size(), " bytes")});
  group::require_same(world, sizes, {.name = "elastic sizes", .consistency_token = decision.revision});
  return transfer(world, decision, memory);
}

void end_synchronization(World& world, State& state, const Decision& decision, const std::vector<EntryHash>& entries) {
  verify_named(world, entries, decision);
  StateAccess::contents(state).settle(decision.revision);
}

void compare(World& world, const State& state) {
  const Contents& contents = StateAccess::contents(state);
  verify_named(world, hashes_of(contents, saved(contents)), all_have(state.revision(), world.size()));
}

void compare(World& world, const State& state, const std::vector<EntryHash>& entries) {
  verify_named(world, entries, all_have(state.revision(), world.size()));
}

}  // namespace anello::elastic
