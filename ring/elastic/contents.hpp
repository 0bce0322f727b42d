// The entries of a State, and how far they are. Belongs to the thread that uses the State.
#pragma once
#include <anello/elastic_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ring/base/bytes.hpp"

namespace anello::elastic {

struct Entry {
  std::string name;
  Bytes replicated = {};
  std::function<std::string()> save = {};  // empty if the entry is replicated memory, as is load
  std::function<void(std::string_view)> load = {};
  bool is_small() const { return bool(save); }
};

class Contents {
 public:
  void add(Entry entry);
  void commit(const std::function<void()>& update);
  void settle(std::uint64_t at) {
    revision = at;
    holds = clean = true;
  }

  std::vector<Entry> entries;
  std::uint64_t revision = 0;
  bool holds = false, clean = true;
};

class StateAccess {
 public:
  static Contents& contents(const State& state) { return *state.contents_; }
};

}  // namespace anello::elastic
