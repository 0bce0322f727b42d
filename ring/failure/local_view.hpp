// The facts that a rank has without messages from other ranks: the hosts of all ranks, its own groups, its operations
// and its refused calls. The state machines of this room share one view, and the FailureDetector owns it. Pure; one
// thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"

namespace anello::failure {

class LocalView {
 public:
  // A call that this rank refused to its program before anything was sent; `sequence`: the operation's number in the
  // group.
  struct Refusal {
    std::uint64_t sequence = 0;
    std::string reason;
  };
  struct Group {
    std::string name;  // name of the group, as texts show it
    std::vector<int> members;
    std::optional<Refusal> refusal;  // the newest refusal; the program may have repeated the call since then
    bool contains(int rank) const;
  };
  // Returns this rank's operation with this number in the group, if it has begun and is still recorded.
  using Recall = std::function<std::optional<NamedSignature>(std::uint64_t group, std::uint64_t sequence)>;

  // `hosts`: by rank. Group 0, the world, exists from the beginning.
  LocalView(int rank, std::vector<std::string> hosts, Recall recall);

  void add_group(std::uint64_t id, std::string name, std::vector<int> members);

  void remove_group(std::uint64_t id) { groups_.erase(id); }

  void refuse(std::uint64_t group, const Refusal& refusal);

  int rank() const { return rank_; }
  int size() const { return int(hosts_.size()); }
  std::string named(int rank) const;  // "rank 2 on host2"
  const std::map<std::uint64_t, Group>& groups() const { return groups_; }
  const Group* group(std::uint64_t id) const;  // null: this rank is not in the group
  std::optional<NamedSignature> operation(std::uint64_t group, std::uint64_t sequence) const {
    return recall_(group, sequence);
  }
  // Returns the call with its name if this rank has begun it.
  NamedSignature named(const Signature& operation) const;

 private:
  int rank_;
  std::vector<std::string> hosts_;
  Recall recall_;
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace anello::failure
