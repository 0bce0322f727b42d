#include "ring/group/text_exchange.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <anello/error.hpp>
#include <map>
#include <numeric>

#include "ring/base/signature.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::group {
namespace {

constexpr std::uint64_t kMaxBytes = 256 << 20;

// Checks a length that another rank sent. Call this before allocating memory of that length.
void check_length(std::uint64_t bytes, const Group& group, int from, const Options& options) {
  const int rank = group.members()[std::size_t(from)];
  if (bytes > kMaxBytes)
    throw Error(
        ErrorCode::protocol,
        text(options.name, ": rank ", rank, " announced ", bytes, " bytes; at most ", kMaxBytes, " are allowed"), rank);
}

std::string encode(std::span<const NamedValue> values) {
  Writer out;
  for (const NamedValue& each : values) out.str(each.name).str(each.value);
  return std::move(out).take();
}

std::vector<NamedValue> decode(std::string_view what, std::string_view all) {
  Reader in(what, all);
  std::vector<NamedValue> values;
  while (in.left() > 0) {
    NamedValue& value = values.emplace_back();
    value.name = in.str(in.left());
    value.value = in.str(in.left());
  }
  return values;
}

// Describes how this rank's list differs from the first member's; empty if the lists are equal. `first_rank` and `rank`
// are world ranks.
std::string first_difference(std::span<const NamedValue> first, std::span<const NamedValue> mine, int first_rank,
                             int rank) {
  const auto difference = std::ranges::mismatch(first, mine);
  const auto theirs = difference.in1, own = difference.in2;  // Clang 14 cannot capture structured bindings in a lambda
  if (theirs == first.end() && own == mine.end()) return {};
  const bool both = theirs != first.end() && own != mine.end();
  const std::string& name = theirs != first.end() ? theirs->name : own->name;
  // If the names differ, shows "name value", because the values may be equal.
  const auto shown = [&](const NamedValue& value) {
    return both && theirs->name != own->name ? text(value.name, " ", value.value) : value.value;
  };
  return text(name, " differs: ", theirs != first.end() ? shown(*theirs) : "none", " on rank ", first_rank, ", ",
              own != mine.end() ? shown(*own) : "none", " on rank ", rank);
}

}  // namespace

std::string broadcast_text(int root, Group& group, std::string mine, const Options& options) {
  std::uint64_t bytes = mine.size();
  group.broadcast(std::span(&bytes, 1), root, options);
  check_length(bytes, group, root, options);
  mine.resize(bytes);
  group.broadcast(mine, root, options);
  return mine;
}

std::vector<std::string> gather_text(Group& group, std::string_view mine, const Options& options) {
  const std::uint64_t own_bytes = mine.size();
  std::vector<std::uint64_t> bytes(std::size_t(group.size()));
  group.allgather(std::span(&own_bytes, 1), bytes,
                  {.name = options.name, .consistency_token = options.consistency_token});
  for (std::size_t from = 0; from < bytes.size(); from++) check_length(bytes[from], group, int(from), options);
  std::string all(std::accumulate(bytes.begin(), bytes.end(), std::size_t(0)), '\0');
  if (!all.empty())
    group.allgather(mine, all, {.name = options.name, .counts = bytes, .consistency_token = options.consistency_token});
  std::vector<std::string> texts;
  for (std::size_t at = 0; const std::uint64_t part : bytes) {
    texts.push_back(all.substr(at, part));
    at += part;
  }
  return texts;
}

// Each rank sends the text of its difference from the first rank, and the fingerprint of its list. The fingerprints
// show which ranks have equal lists.
void require_same(Group& group, std::span<const NamedValue> mine, const Options& options) {
  constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);
  const std::string own = encode(mine);
  const std::vector<NamedValue> first = decode(options.name, broadcast_text(0, group, own, options));
  const std::uint64_t number = fingerprint(own);
  const auto said =
      gather_text(group,
                  std::move(Writer().u64(number)).take() +
                      first_difference(first, mine, group.members()[0], group.members()[std::size_t(group.rank())]),
                  options);
  std::map<int, std::string> numbers;
  for (int rank = 0; rank < group.size(); rank++) numbers[rank] = said[std::size_t(rank)].substr(0, kNumberBytes);
  const auto all = camps(numbers);
  if (all.size() < 2) return;
  const int usual = all[0].ranks.front(), odd = odd_camp(all, said.size()).ranks.front();
  const int fault = rank_at_fault(all, said.size());
  throw Error(ErrorCode::mismatch, said[std::size_t(usual == 0 ? odd : usual)].substr(kNumberBytes),
              fault < 0 ? -1 : group.members()[std::size_t(fault)]);
}

}  // namespace anello::group
