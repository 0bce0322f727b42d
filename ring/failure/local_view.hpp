// What a rank knows without any message: the hosts of all ranks, the groups that it is in, its own operations and its
// refused calls. The machines of this room share one view; the FailureDetector owns it. Pure; one thread.
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
  // This rank's program called the group's operation of that number, and the call was refused before anything was sent.
  struct Refusal {
    std::uint64_t sequence = 0;
    std::string reason;
  };
  struct Group {
    std::string name;  // for people
    std::vector<int> members;
    std::optional<Refusal> refusal;  // the newest. The program may have called the operation again since then
    bool contains(int rank) const;
  };
  // This rank's operation of that number in the group, if it has begun and is still remembered.
  using Recall = std::function<std::optional<Call>(std::uint64_t group, std::uint64_t sequence)>;

  // One host for each rank. Group 0, the world, is there from the beginning.
  LocalView(int rank, std::vector<std::string> hosts, Recall recall);

  void add_group(std::uint64_t id, std::string name, std::vector<int> members);

  void remove_group(std::uint64_t id) { groups_.erase(id); }

  void refuse(std::uint64_t group, const Refusal& refusal);

  int rank() const { return rank_; }
  int size() const { return int(hosts_.size()); }
  std::string named(int rank) const;  // "rank 2 on host2"
  const std::map<std::uint64_t, Group>& groups() const { return groups_; }
  const Group* group(std::uint64_t id) const;  // null: this rank is not in it
  std::optional<Call> operation(std::uint64_t group, std::uint64_t sequence) const { return recall_(group, sequence); }
  // With its name, if this rank has begun it.
  Call named(const Signature& operation) const;

 private:
  int rank_;
  std::vector<std::string> hosts_;
  Recall recall_;
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace anello::failure
