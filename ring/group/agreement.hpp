// Detects that the ranks do not agree about an operation, and explains the difference: a peer made a different call,
// sent different counts, or has a different checksum of an earlier result. Used by the thread that moves the group's
// data.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ring/group/operation.hpp"
#include "ring/trace/flight_recorder.hpp"

namespace anello::group {

class Agreement {
 public:
  // `rank`: this process's rank in the group. `compares`: true if results that must be equal on all ranks are compared.
  // All arguments must outlive this object.
  Agreement(int rank, const link::GroupInfo& group, trace::FlightRecorder& recorder, bool compares)
      : rank_(rank), group_(group), recorder_(recorder), compares_(compares) {}

  // `pending` must outlive the operation.
  void begin(const Operation& pending) { operation_ = &pending; }
  // Returns the operation's signature with the checksum of earlier results. Valid until the operation ends.
  const Signature& signature();
  // Returns the error for a peer whose signature differs. `peer`: its rank in the group.
  Error explain(int peer, const Signature& encoded);
  // Call when the operation is done. Throws Error{mismatch} if the numbers that the peers sent differ from those that
  // this call expects.
  void check_numbers() {
    if (!operation_->call->agreed.empty()) compare_numbers();
  }
  // Call when the operation is done. Keeps the checksum of its results if they must be equal on all ranks.
  void keep_results() {
    if (compares_) sum_up_results();
  }

  // Set after an error was returned or thrown because this rank and a peer disagree about the operation.
  struct Differing {
    NamedSignature mine;
    std::vector<int> peers;  // world ranks
    Signature theirs;        // only if the peer made a different call: its signature; `peers` has then one entry
  };
  const std::optional<Differing>& differing() const { return differing_; }

 private:
  // The newest operation whose results must be equal on all ranks, and their checksum.
  struct Results {
    std::uint64_t sequence = 0;
    std::uint32_t checksum = 0;  // 0: none yet
  };

  void compare_numbers();
  void sum_up_results();
  Error divergence(int peer, std::uint32_t theirs) const;
  int world_rank(int member) const { return group_.members[std::size_t(member)]; }

  int rank_;
  const link::GroupInfo& group_;
  trace::FlightRecorder& recorder_;
  bool compares_;
  const Operation* operation_ = nullptr;
  Results results_;
  Signature signature_;
  std::optional<Differing> differing_;
};

}  // namespace anello::group
