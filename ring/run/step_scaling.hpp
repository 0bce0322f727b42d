// How the steps of a plan scale elements: inputs are multiplied when they are sent or reduced, results when a step
// makes them. Pure.
#pragma once
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::run {

struct StepScaling {
  StepScaling() = default;
  // `results` and `inputs`: null if they are not scaled. Both must outlive this object.
  StepScaling(const Arithmetic& arithmetic, const Scaling* its_results, const Scaling* its_inputs);

  bool multiplies(plan::Operand operand) const { return inputs && operand.space == plan::Space::input; }
  // Returns the factors of a reduction's two operands and of its result, for elements that are scaled as they are
  // added.
  Factors factors(const plan::Plan& plan, const plan::Step& step) const;
  // True if inputs or results must be scaled in a separate pass.
  bool needs_pass() const { return (inputs && !while_adding) || results_apart; }

  const Scaling *results = nullptr, *inputs = nullptr;
  bool while_adding = false;   // inputs or results are scaled as they are added
  bool results_apart = false;  // results are scaled in a separate pass after they were made
  double result_factor = 1;    // used if while_adding
};

}  // namespace anello::run
