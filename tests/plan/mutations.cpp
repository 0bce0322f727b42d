#include "tests/plan/mutations.hpp"

#include <algorithm>
#include <set>

namespace anello::plan {
namespace {

std::size_t steps(const Plan& plan) {
  return plan.steps.size();
}
std::size_t deps(const Plan& plan) {
  return plan.deps.size();
}
std::size_t streams(const Plan& plan) {
  return plan.streams.size();
}
std::size_t sources(const Plan& plan) {
  return plan.sources.size();
}

// Returns the step that has this dependency.
std::uint32_t dependent(const Plan& plan, std::size_t dep) {
  std::uint32_t step = 0;
  while (plan.steps[step].first_dep + plan.steps[step].deps <= dep) step++;
  return step;
}

// An event: one element of one step. The functions below walk backwards through all events that must come before a
// given event.
struct Event {
  std::uint32_t step;
  std::uint64_t elem;
  auto operator<=>(const Event&) const = default;
};

// Finds the last event that `now` must wait for because of `dep`. Returns false if there is no such event.
bool awaited(const Plan& plan, Event now, Dep dep, Event& result) {
  const Range other = plan.steps[dep.step].range;
  const std::uint64_t element = plan.steps[now.step].range.begin + now.elem;
  if (!dep.whole && element < other.begin) return false;
  result = {dep.step, dep.whole ? other.count - 1 : std::min(element - other.begin, other.count - 1)};
  return true;
}

bool comes_after(const Plan& plan, Event now, Event earlier, std::size_t without) {
  std::set<Event> seen;
  std::vector<Event> open = {now};
  while (!open.empty()) {
    const Event event = open.back();
    open.pop_back();
    if (!seen.insert(event).second) continue;
    if (event.step == earlier.step && event.elem >= earlier.elem) return true;
    const Step& step = plan.steps[event.step];
    if (event.elem > 0)
      open.push_back({event.step, event.elem - 1});
    else if (event.step > plan.streams[step.stream].first)
      open.push_back({event.step - 1, plan.steps[event.step - 1].range.count - 1});
    for (std::uint32_t k = step.first_dep; k < step.first_dep + step.deps; k++)
      if (Event before; k != without && awaited(plan, event, plan.deps[k], before)) open.push_back(before);
  }
  return false;
}

// True if the other dependencies imply this one.
bool implied(const Plan& plan, std::size_t dep) {
  const std::uint32_t step = dependent(plan, dep);
  for (std::uint64_t elem = 0; elem < plan.steps[step].range.count; elem++) {
    Event before;
    if (awaited(plan, {step, elem}, plan.deps[dep], before) && !comes_after(plan, {step, elem}, before, dep))
      return false;
  }
  return true;
}

bool drop_dep(Plan& plan, std::size_t site) {
  if (implied(plan, site)) return false;
  Step& step = plan.steps[dependent(plan, site)];
  std::swap(plan.deps[site], plan.deps[step.first_dep + step.deps - 1]);
  step.deps--;
  return true;
}

bool loosen_dep(Plan& plan, std::size_t site) {
  Dep& dep = plan.deps[site];
  const Range mine = plan.steps[dependent(plan, site)].range, other = plan.steps[dep.step].range;
  if (!dep.whole || mine.begin + 1 >= other.end()) return false;  // all of it is awaited in any case
  dep.whole = false;
  return true;
}

bool flip_sides(Plan& plan, std::size_t site) {
  Step& step = plan.steps[site];
  step.incoming_left = !step.incoming_left;
  return step.act == Act::reduce;
}

bool swap_sources(Plan& plan, std::size_t site) {
  const Step& step = plan.steps[site];
  if (step.sources < 2) return false;
  std::swap(plan.sources[step.first_source], plan.sources[step.first_source + 1]);
  return true;
}

bool keep_incoming_only(Plan& plan, std::size_t site) {
  Step& step = plan.steps[site];
  if (step.act != Act::reduce) return false;
  step.act = Act::copy;
  step.sources = 0;
  step.incoming_left = step.makes_result = false;
  return true;
}

bool forget_source(Plan& plan, std::size_t site) {
  Step& step = plan.steps[site];
  if (step.act != Act::fold || step.sources < 2) return false;
  step.sources--;
  return true;
}

bool repeat_source(Plan& plan, std::size_t site) {
  const Step& step = plan.steps[site];
  if (step.sources < 2) return false;
  plan.sources[step.first_source + 1] = plan.sources[step.first_source];
  return true;
}

bool shift_range(Plan& plan, std::size_t site) {
  plan.steps[site].range.begin++;
  return true;
}
bool shrink_range(Plan& plan, std::size_t site) {
  plan.steps[site].range.count--;
  return true;
}
bool stretch_range(Plan& plan, std::size_t site) {
  plan.steps[site].range.count++;
  return true;
}
bool shift_place(Plan& plan, std::size_t site) {
  plan.steps[site].place.at++;
  return true;
}
bool shift_source(Plan& plan, std::size_t site) {
  plan.sources[site].at++;
  return true;
}

// Shifts the range and everything in the caller's buffers together, so that only the peer could notice.
bool shift_all(Plan& plan, std::size_t site) {
  Step& step = plan.steps[site];
  if (step.act == Act::fold) return false;  // this alone has no effect, and takes longer
  step.range.begin++;
  step.place.at++;
  for (std::uint32_t k = 0; k < step.sources; k++) plan.sources[step.first_source + k].at++;
  return true;
}

bool other_space(Operand& operand) {
  if (operand.space == Space::scratch) return false;
  operand.space = operand.space == Space::input ? Space::output : Space::input;
  return true;
}
bool change_place(Plan& plan, std::size_t site) {
  return other_space(plan.steps[site].place);
}
bool change_source(Plan& plan, std::size_t site) {
  return other_space(plan.sources[site]);
}

// Changes the peer to the next rank, which may itself be a peer already.
bool change_peer(Plan& plan, std::size_t site) {
  Stream& stream = plan.streams[site];
  if (stream.kind == Stream::Kind::local) return false;
  stream.peer = (stream.peer + 1) % plan.world;
  return true;
}

bool swap_neighbours(Plan& plan, std::size_t site) {
  if (site + 1 == plan.steps.size()) return false;
  Step &first = plan.steps[site], &second = plan.steps[site + 1];
  if (first.stream != second.stream || first.act == Act::fold) return false;
  std::swap(first, second);
  std::swap(first.order, second.order);
  return true;
}

// Makes room for `added` steps (or takes -added away) before step `at`, which is in `stream`.
void renumber(Plan& plan, std::uint32_t at, std::uint32_t stream, int added) {
  plan.streams[stream].end += std::uint32_t(added);
  for (std::size_t s = stream + 1; s < plan.streams.size(); s++) {
    plan.streams[s].first += std::uint32_t(added);
    plan.streams[s].end += std::uint32_t(added);
  }
  for (Dep& dep : plan.deps)
    if (dep.step >= at) dep.step += std::uint32_t(added);
}

bool repeat_step(Plan& plan, std::size_t site) {
  if (plan.steps[site].act == Act::fold) return false;  // folds the same range once more
  for (Step& step : plan.steps) step.order *= 2;
  Step again = plan.steps[site];
  again.order++;
  renumber(plan, std::uint32_t(site) + 1, again.stream, 1);
  plan.steps.insert(plan.steps.begin() + std::ptrdiff_t(site) + 1, again);
  return true;
}

void forget_deps_on(Plan& plan, std::size_t removed) {
  for (Step& step : plan.steps)
    for (std::uint32_t k = 0; k < step.deps;) {
      Dep& dep = plan.deps[step.first_dep + k];
      if (dep.step != removed)
        k++;
      else
        dep = plan.deps[step.first_dep + --step.deps];
    }
}

bool drop_step(Plan& plan, std::size_t site) {
  const std::uint32_t stream = plan.steps[site].stream;
  forget_deps_on(plan, site);
  plan.steps.erase(plan.steps.begin() + std::ptrdiff_t(site));
  renumber(plan, std::uint32_t(site) + 1, stream, -1);
  if (plan.streams[stream].first < plan.streams[stream].end) return true;
  plan.streams.erase(plan.streams.begin() + stream);
  for (Step& step : plan.steps)
    if (step.stream > stream) step.stream--;
  return true;
}

bool wait_for_ever(Plan& plan, std::size_t site) {
  plan.deps.push_back({std::uint32_t(site), true});
  plan.steps[site].first_dep = std::uint32_t(plan.deps.size()) - 1;
  plan.steps[site].deps = 1;
  return true;
}

bool shrink_scratch(Plan& plan, std::size_t) {
  if (plan.scratch_elems == 0) return false;
  std::uint64_t used = 0;
  for (const Step& step : plan.steps)
    if (step.place.space == Space::scratch) used = std::max(used, step.place.at + step.range.count);
  plan.scratch_elems = used - 1;
  return true;
}
bool change_result(Plan& plan, std::size_t site) {
  plan.steps[site].makes_result = !plan.steps[site].makes_result;
  return true;
}
std::size_t once(const Plan&) {
  return 1;
}

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"drop_dep", deps, drop_dep},
      {"loosen_dep", deps, loosen_dep},
      {"flip_sides", steps, flip_sides},
      {"swap_sources", steps, swap_sources},
      {"keep_incoming_only", steps, keep_incoming_only},
      {"forget_source", steps, forget_source},
      {"repeat_source", steps, repeat_source},
      {"shift_range", steps, shift_range},
      {"shrink_range", steps, shrink_range},
      {"stretch_range", steps, stretch_range},
      {"shift_place", steps, shift_place},
      {"shift_source", sources, shift_source},
      {"shift_all", steps, shift_all},
      {"change_place", steps, change_place},
      {"change_source", sources, change_source},
      {"change_peer", streams, change_peer},
      {"swap_neighbours", steps, swap_neighbours},
      {"repeat_step", steps, repeat_step},
      {"drop_step", steps, drop_step},
      {"wait_for_ever", steps, wait_for_ever},
      {"change_result", steps, change_result},
      {"shrink_scratch", once, shrink_scratch},
  };
  return all;
}

}  // namespace anello::plan
