#include "ring/plan/plan.hpp"

#include <array>
#include <sstream>

namespace anello::plan {
namespace {

std::ostream& operator<<(std::ostream& out, Operand operand) {
  static constexpr std::array kNames = {"input", "output", "scratch"};
  return out << kNames[std::size_t(operand.space)] << "@" << operand.at;
}

void write_step(std::ostream& out, const Plan& plan, std::size_t index) {
  static constexpr std::array kNames = {"send", "copy", "reduce", "fold"};
  const Step& step = plan.steps[index];
  out << index << ": " << kNames[std::size_t(step.act)];
  if (step.act == Act::send)
    out << " to " << plan.streams[step.stream].peer;
  else if (step.act != Act::fold)
    out << " from " << plan.streams[step.stream].peer;
  out << " [" << step.range.begin << ", " << step.range.end() << ") " << step.place;
  const char* between = " = ";
  if (step.act == Act::reduce && step.incoming_left) {
    out << " = incoming";
    between = " + ";
  }
  for (std::uint32_t k = 0; k < step.sources; k++) {
    out << between << plan.sources[step.first_source + k];
    between = " + ";
  }
  if (step.act == Act::reduce && !step.incoming_left) out << " + incoming";
  if (step.makes_result) out << " (result)";
  for (std::uint32_t k = 0; k < step.deps; k++) {
    const Dep dep = plan.deps[step.first_dep + k];
    out << (k == 0 ? " after " : ", ") << dep.step << (dep.whole ? "!" : "");
  }
  out << "\n";
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::ostringstream out;
  out << "rank " << plan.rank << " of " << plan.world << ": " << plan.input_elems << " in";
  if (plan.input_base != 0) out << " from " << plan.input_base;
  out << ", " << plan.output_elems << " out";
  if (plan.output_base != 0) out << " from " << plan.output_base;
  if (plan.scratch_elems != 0) out << ", scratch " << plan.scratch_elems;
  out << "\n";
  for (std::size_t i = 0; i < plan.steps.size(); i++) write_step(out, plan, i);
  return std::move(out).str();
}

}  // namespace anello::plan
