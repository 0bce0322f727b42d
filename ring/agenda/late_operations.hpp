// Reports which operation of an agenda waits for which rank, and ends the world after ANELLO_OPERATION_LIMIT. It
// reports an operation even while other operations go on. Used under the scheduler's lock.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ring/agenda/agenda.hpp"
#include "ring/agenda/named_operation.hpp"
#include "ring/control/control_plane.hpp"

namespace anello::agenda {

class LateOperations {
 public:
  using Undecided = std::map<std::string, std::shared_ptr<NamedOperation>, std::less<>>;  // by key

  // `rank`: this process's rank in the group. `control` is null in a world of one, where nothing is late.
  LateOperations(int rank, const Settings& settings, control::ControlPlane* control);

  // Call when nothing moves. `stuck`: for how long nothing has moved.
  void look(const Undecided& undecided, std::chrono::milliseconds stuck, const Agenda& agenda) const;

 private:
  void end_if_overdue(const NamedOperation& operation, std::chrono::milliseconds age, const Agenda& agenda) const;

  std::chrono::milliseconds report_after_, limit_, delay_;
  control::ControlPlane* control_;
};

}  // namespace anello::agenda
