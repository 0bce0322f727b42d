// One group's data path: turns an operation into a plan and carries it through. The thread that calls moves the bytes;
// threads that call at the same time take turns. Owned by the world; knows links and the control plane, not how ranks
// were found.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ring/bootstrap.hpp"
#include "ring/net/control.hpp"
#include "ring/net/data_links.hpp"
#include "ring/operation.hpp"
#include "ring/plan/choose.hpp"
#include "ring/progress.hpp"

namespace anello {

class Communicator {
 public:
  // Control and links are null in a world of one.
  // `facts` and `table` are the same on all ranks; what the settings say is added to the facts.
  Communicator(const Identity& identity, const Facts& facts, Table table, const Settings& settings, Patience patience,
               Bell& bell, Control* control, DataLinks* links);

  // Blocks until this rank's part is done. Any thread. Throws the world's verdict, with the operation and how far it
  // got.
  void run(const Operation& operation);

  // For a world of one, which has no control plane: every later run() throws this. Any thread.
  void end(Error why);

  std::uint64_t completed() const { return sequence_; }  // not during a run()

 private:
  static constexpr std::size_t kMaxPlans = 1024;
  using PlanKey = std::tuple<Kind, Algorithm, Shape, std::uint64_t>;

  Signature sign(const Operation& operation);
  Signature what_is_asked(const Operation& operation) const;
  Signature with_choice(Signature signature) const;
  const Plan& plan_for(const Signature& signature);
  Plan make_plan(const Signature& signature) const;
  void start(const Plan& plan, const Operation& operation);
  Buffer prescaled(const Plan& plan, const Operation& operation);
  void finish(const Operation& operation);
  void check_agreed(const Operation& operation) const;
  void carry_out(const Signature& signature);
  bool may_sleep();
  bool links_ready(const Plan& plan);
  std::string explain(int peer, const Signature& theirs) const;
  [[noreturn]] void fail(const Operation& operation, const Signature& signature, const Error* cause);

  int rank_, size_;
  std::uint32_t generation_;
  Facts facts_;
  Table table_;
  Control* control_;
  DataLinks* links_;
  Waiter waiter_;
  std::mutex baton_;  // over everything below
  std::uint64_t sequence_ = 0;
  std::map<PlanKey, Plan> plans_;
  Signature asked_, chosen_;    // of the last call, without its sequence: as asked for, and with the choice
  Shape shape_;                 // of the last call
  const Plan* plan_ = nullptr;  // and its plan
  std::vector<Link*> link_of_;
  Execution execution_;
  std::vector<std::byte> prescaled_;
  Progress progress_;
  std::array<std::byte, 16> nothing_{};  // what moves when there are no elements to move
  std::optional<Error> failure_;
};

}  // namespace anello
