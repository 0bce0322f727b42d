// The entries of a State, and the progress of their commits. Belongs to the thread that uses the State.
#pragma once
#include <anello/elastic_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ring/base/bytes.hpp"

namespace anello::elastic {

struct Entry {
  std::string name;
  Bytes memory = {};
  std::function<std::string()> save = {};  // empty if the entry is memory; `load` is then empty too
  std::function<void(std::string_view)> load = {};
  bool own = false;                  // true if each rank has its own values in the memory
  std::vector<std::byte> kept = {};  // the memory's bytes at the last commit, if it is a rank's own memory
  bool is_small() const { return bool(save); }
};

class Contents {
 public:
  void add(Entry entry);
  // The two parts of a commit. The program writes the entries between the two calls. If writing the entries fails,
  // end_commit() is not called.
  void begin_commit();
  void end_commit();
  void restore();
  // Copies the ranks' own memory at a commit, and back after a step that has failed. Before the first keep(),
  // set_back() does nothing.
  void keep();
  void set_back();
  // Call this before the first byte of another rank's state arrives. From then on the entries are not clean, because
  // the transfer may fail.
  void receive() { clean = commits = false; }
  void settle(std::uint64_t at) {
    keep();
    revision = at;
    holds = clean = true;
    commits = false;
  }

  std::vector<Entry> entries;
  std::uint64_t revision = 0;
  bool holds = false, clean = true;
  bool commits = false;  // true while a commit is in progress
};

class StateAccess {
 public:
  static Contents& contents(const State& state) { return *state.contents_; }
};

}  // namespace anello::elastic
