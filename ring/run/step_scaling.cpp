#include "ring/run/step_scaling.hpp"

#include <optional>

namespace anello::run {

StepScaling::StepScaling(const Arithmetic& arithmetic, const Scaling* its_results, const Scaling* its_inputs)
    : results(its_results), inputs(its_inputs) {
  const bool can_add_scaled = arithmetic.add_scaled && !arithmetic.narrow;
  const std::optional<double> factor = results ? results->one_factor() : 1;
  results_apart = results && !(can_add_scaled && factor);
  result_factor = can_add_scaled ? factor.value_or(1) : 1;
  while_adding = can_add_scaled && (inputs || result_factor != 1);
}

Factors StepScaling::factors(const plan::Plan& plan, const plan::Step& step) const {
  const double mine = multiplies(plan.sources[step.first_source]) ? inputs->factor : 1;
  const double result = step.makes_result ? result_factor : 1;
  return step.incoming_left ? Factors{1, mine, result} : Factors{mine, 1, result};
}

}  // namespace anello::run
