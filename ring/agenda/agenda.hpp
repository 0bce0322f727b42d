// The agenda of one rank of a group: which named operations start, and in which order, equal on all ranks.
//
// The ranks form a binomial tree: the number of a rank's parent is its own number with the lowest set bit cleared. A
// rank reports an operation to its parent when the rank has submitted the operation and all its children have reported
// it. So rank 0 finds out when all ranks have submitted it. Rank 0 then decides that the operation starts, and the
// decision is sent down the tree. A rank compares the descriptions in the reports that it receives. It adds the first
// difference to its own report, and rank 0 then decides that the operation fails. An operation's key is its verb with
// its name. The first decision about a key gives the key a number, and later messages contain the number instead of the
// key. A description that did not change is not sent again.
//
// While earlier operations move data, rank 0 may hold back small allreduces that all ranks have submitted, and decide
// them together later. Each decision says whether the next decision belongs to the same list, so all ranks make the
// same lists.
//
//        0            0 <- 1, 2, 4    a rank that has joined counts as one that has submitted everything
//      / | \.
//     1  2  4         2 <- 3
//        |  | \.
//        3  5  6      4 <- 5, 6       6 <- 7
//
// A state machine: no clock, no thread, no I/O. The owner carries messages, in order, between neighbours, and calls
// from one thread at a time. Ranks are ranks of the group, except in messages for people.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ring/agenda/message.hpp"

namespace anello::agenda {

// The facts of an operation on which all ranks have agreed.
struct Agreed {
  Description description;
  std::vector<Sizes> sizes;  // by rank; empty for a rank that has joined
};

// The decision of all ranks about one operation. All ranks get the same decisions in the same order.
struct Decision {
  std::string key;    // empty for a join
  bool mine = false;  // true if this rank has submitted the operation; false if it has joined, or has refused the call
  std::shared_ptr<const Agreed> agreed;  // null for a refusal and for a join
  std::optional<Refusal> refusal;
  std::int32_t last = -1;  // the rank that joined last; only for a join
  bool with_next = false;  // true if this allreduce and the next decision's are carried out as one list
};

class Agenda {
 public:
  using SuitsList = std::function<bool(const Description&)>;
  // `members`: world ranks, by rank in this group, for error messages. `suits_list`: called only by rank 0; true for a
  // small allreduce that gives the same bits alone and in a list with others. Null: no operation is put into a list.
  Agenda(int rank, std::vector<int> members, SuitsList suits_list = nullptr);

  // Submits this rank's call of an operation; `name` may be empty. Returns the operation's key, which is also its name
  // in messages: "allreduce 'loss'". Throws Error{invalid_argument} if the name is in use or too long, or if this rank
  // has joined.
  std::string submit(std::string_view name, const Description& description, const Sizes& sizes);
  // Call when this rank's program has called an operation in which this rank cannot take part. The call counts as
  // submitted, so that the ranks stay in step. The operation fails on the other ranks as soon as all ranks have
  // submitted it. The name stays free. Returns false and does nothing if submit() would throw.
  bool refuse(std::string_view name, Verb verb, const std::string& why);
  // Joins: this rank has no more data. Throws Error{invalid_argument} if this rank has already joined.
  void join();
  // Lets the name of a decided operation be used again. Does nothing if the name is not in use.
  void release(const std::string& key);

  // true: from now on, rank 0 holds back small allreduces that may be one list. false: it decides everything at once.
  // It decides the held-back operations when their list is full, or when it decides another operation. Other ranks hold
  // back nothing.
  void hold(bool holds) { holds_ = holds; }
  bool has_held() const { return !complete_.reports.empty(); }
  // Decides all that was held back.
  void decide_held();

  // Processes a neighbour's message. Throws Error{protocol} with the neighbour's rank; then the agenda cannot be used
  // any more.
  void receive(int from, std::string_view message);
  // The neighbours: the children, then the parent (rank 0 has no parent).
  const std::vector<int>& neighbours() const { return neighbours_; }
  // Returns everything that must be sent to a neighbour now, as one message; empty if there is nothing to send.
  std::string say(int neighbour);
  bool has_to_say() const;

  // Returns the decisions since the last call.
  std::vector<Decision> decide();

  // True if this rank waits for a decision about an operation that it has submitted. Then it must receive messages.
  bool waits() const { return !undecided_.empty() || joined_[0]; }
  // Describes in words why an operation waits: "allreduce 'x' waits for rank 2; rank 2 called broadcast 'x' instead",
  // or "allreduce 'x' waits for the answer of rank 0". For the key kJoin, describes for whose join this rank waits.
  std::string waits_for(const std::string& key) const;
  static constexpr std::string_view kJoin = "join";  // all other keys also contain a name or a number

 private:
  // The reports of an operation that a rank of this subtree has submitted: this rank's report, then those of its
  // children.
  using Reports = std::vector<std::optional<Item>>;
  using Entries = std::map<std::string, Reports, std::less<>>;
  // An operation that all ranks have reported to rank 0, and that is not decided yet.
  struct Complete {
    Item report;
    bool suits_list = false;     // valid once the report is sorted
    bool with_previous = false;  // the operation belongs to the list of the report before it
  };
  struct Numbered {
    std::string key;
    std::shared_ptr<const Agreed> agreed;
  };

  std::string claim(std::string_view name, Verb verb);
  void put_forward(const std::string& key, Item report);
  void resume();
  bool holds_back() const;
  const std::string& key_of(const Item& item) const;
  void add(std::size_t part, Item report);
  bool complete(const Reports& reports) const;
  void joined(std::size_t part, int last);
  void pass_on(Entries::iterator entry);
  Item combined(Reports reports) const;
  void combine(Item& all, const Item& report) const;
  const Description& described(const Item& report) const;
  std::vector<Party> parties_of(const Item& report) const;
  Refusal dispute(const std::vector<Party>& parties) const;
  Item decision_of(Item report) const;
  void sort_into_lists();
  void decide_complete();
  void carry_down(const Item& decision);
  void apply(const Item& decision);
  std::shared_ptr<const Agreed> learn(const std::string& key, const Item& decision);
  std::string reported_by(std::size_t part, std::string_view key) const;
  void take_report(std::size_t part, Item item);
  void take_decision(const Item& item);
  int world_rank(int rank) const { return members_[std::size_t(rank)]; }

  const int rank_;
  const std::vector<int> members_;
  std::vector<int> neighbours_;   // the children, then the parent
  std::size_t children_ = 0;      // number of children
  std::vector<Writer> outgoing_;  // by neighbour
  std::vector<bool> joined_;      // by part (this rank, then each child's subtree): true if the part has joined
  bool joins_later_ = false;      // true if this rank joins once the reports that it holds back are sent
  Entries entries_;
  std::vector<Numbered> numbered_;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::set<std::string, std::less<>> taken_, undecided_;  // keys that this rank has submitted
  // Undecided operations that this rank refused, with the reports that are held back for them.
  std::map<std::string, std::vector<Item>, std::less<>> refused_;
  std::map<Verb, std::uint64_t> unnamed_;
  int joins_ = 0;  // how often all ranks have joined
  const SuitsList suits_list_;
  struct {
    std::vector<Complete> reports;      // in the order in which they will be decided
    std::size_t sorted = 0, lists = 0;  // number of sorted reports; number of their lists (a report alone is a list)
    std::uint64_t bytes = 0;            // size of the last list
  } complete_;                          // on rank 0: the operations that are not decided yet
  bool holds_ = false;                  // the last argument of hold()
  std::vector<Decision> decisions_;
};

}  // namespace anello::agenda
