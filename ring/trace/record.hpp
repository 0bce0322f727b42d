// The record of one operation. Plain data.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/trace/ticks.hpp"

namespace anello::trace {

struct Record {
  static constexpr std::size_t kNameBytes = 40;

  Signature signature;
  std::array<char, kNameBytes> name;  // the beginning of the name; the rest is zero
  Ticks queued, begun, ended;         // 0: not yet

  // Sets the record in place, because constructing a record and copying it costs twice as much.
  void set(const Signature& its_signature, std::string_view its_name, Ticks when_queued, Ticks when_begun) {
    signature = its_signature;
    name = {};
    std::copy_n(its_name.begin(), std::min(its_name.size(), kNameBytes), name.begin());
    queued = when_queued;
    begun = when_begun;
    ended = 0;
  }
  std::string_view title() const {
    return {name.data(), std::size_t(std::find(name.begin(), name.end(), '\0') - name.begin())};
  }
};

// One group's operations at one moment.
struct History {
  std::uint64_t group = 0;
  std::string name;          // "group (0, 2)"
  std::vector<int> members;  // world ranks, by rank in the group
  std::vector<Record> records;
};

}  // namespace anello::trace
