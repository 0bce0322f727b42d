#include "rendezvous/join/join_plan.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

bool one_of_several(const std::vector<Placement>& found) {
  return !found.empty() && found.front().size != 1;
}

// True if the source `one` may describe a process with this rank in a world of this size.
bool agrees(const Placement& one, int rank, int size) {
  return one.unusable.empty() && one.rank == rank && (one.size < 0 || size < 0 || one.size == size);
}

// Returns the first source. Takes its missing numbers from other sources with the same rank and no other size.
Placement combined(const std::vector<Placement>& found) {
  Placement out = found.front();
  for (const Placement& other : found) {
    if (!agrees(other, out.rank, out.size)) continue;
    if (out.size < 0) out.size = other.size;
    if (out.local_rank < 0) out.local_rank = other.local_rank;
  }
  return out;
}

void require_equal(const char* variable, int given, int seen, const Placement& placed) {
  if (given < 0 || seen < 0 || given == seen) return;
  throw Error(
      ErrorCode::configuration,
      text(variable, "=", given, ", but this is ", placed.task(), " (", placed.evidence, "); unset ", variable,
           ", or those variables if they are another job's; ANELLO_SIZE=1 makes each task a program of its own"));
}

[[noreturn]] void refuse(const Placement& placed, const std::string& why) {
  throw Error(ErrorCode::configuration, text("this is ", placed.task(), " (", placed.evidence,
                                             "), and it cannot join the others: ", why, "; ", kRemedies));
}

JoinPlan by_settings(JoinPlan plan) {
  const Settings& settings = plan.settings;
  plan.alone = settings.rendezvous.empty();
  if (settings.size > 1 && plan.alone)
    throw Error(ErrorCode::configuration,
                text("ANELLO_SIZE=", settings.size,
                     " needs ANELLO_RENDEZVOUS=host:port; start the ranks with `anello run`, or a server with `anello "
                     "rendezvous`"));
  return plan;
}

// Throws for RANK=0 and WORLD_SIZE=1, or for PMI's variables, if a shell may have kept them from another program:
// otherwise each task of the shell would run alone. Variables of other launchers are accepted, because these launchers
// may start one rank inside one of several tasks.
void require_no_kept_variables(const std::vector<Placement>& found) {
  if (found.empty() || found.front().size != 1 || !found.front().exported) return;
  for (const Placement& other : found)
    if (other.size > 1)
      throw Error(ErrorCode::configuration,
                  text(found.front().launcher, " says ", found.front().evidence, ", but this is ", other.task(), " (",
                       other.evidence,
                       "); unset those that are not this job's; ANELLO_SIZE=1 makes each task a "
                       "program of its own"));
}

}  // namespace

JoinPlan plan_join(const Settings& settings, const std::vector<Placement>& found) {
  JoinPlan plan{settings, false, {}};
  if (settings.size != 1 && settings.report_fd < 0) require_no_kept_variables(found);
  if (settings.size == 1 || settings.report_fd >= 0 || !one_of_several(found)) return by_settings(std::move(plan));
  const Placement placed = combined(found);
  require_equal("ANELLO_SIZE", settings.size, placed.size, placed);
  require_equal("ANELLO_RANK", settings.rank, placed.rank, placed);
  Settings& mine = plan.settings;
  if (mine.size < 0) mine.size = placed.size;
  if (mine.rank < 0) mine.rank = placed.rank;
  if (mine.local_rank < 0) mine.local_rank = placed.local_rank;
  if (!mine.rendezvous.empty()) return plan;
  for (const Placement& one : found) {
    const auto same = [&](const Placement& other) { return other.way == one.way; };
    if (one.way != Way::none && agrees(one, mine.rank, mine.size) && std::ranges::none_of(plan.ways, same))
      plan.ways.push_back(one);
  }
  if (plan.ways.empty())
    refuse(placed, placed.unusable.empty() ? "its launcher gives the tasks no way to meet" : placed.unusable);
  if (mine.size < 0 && plan.ways.front().way != Way::pmix)
    refuse(placed, "the number of tasks is unknown; set ANELLO_SIZE");
  return plan;
}

std::string describe(const JoinPlan& plan) {
  const auto number = [](int value) { return value < 0 ? std::string("?") : std::to_string(value); };
  if (plan.alone) return "a world of one rank";
  std::string out = text("rank ", number(plan.settings.rank), " of ", number(plan.settings.size));
  if (plan.ways.empty()) return out + text(", which joins at ANELLO_RENDEZVOUS=", plan.settings.rendezvous);
  const char* separator = ", which meets the others ";
  for (const Placement& way : plan.ways) {
    out += separator;
    if (way.way == Way::pmi || way.way == Way::pmix) out += text("through ", way.launcher);
    if (way.way == Way::first_host) out += text("on ", way.host, ", the first host of ", way.launcher);
    if (way.way == Way::master) out += text("at MASTER_ADDR=", way.host);
    separator = ", or else ";
  }
  return out;
}

void require_one_copy(const std::string& program, const Settings& settings, const std::vector<Placement>& found) {
  if (settings.size == 1 || settings.report_fd >= 0) return;
  require_no_kept_variables(found);
  if (!one_of_several(found)) return;
  const Placement placed = combined(found);
  const std::string instead =
      placed.unusable.empty() ? text("let ", placed.launcher, " start the program itself, or ") : "";
  throw Error(ErrorCode::configuration,
              text("this is ", placed.task(), " (", placed.evidence,
                   "), and each of them would start a job of its own with `", program, "`; ", instead,
                   "call it once, not in each task; unset the variables if they are left from something else; or set "
                   "ANELLO_SIZE=1, if separate jobs are intended"));
}

}  // namespace anello::rendezvous
