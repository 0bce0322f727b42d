#include "ring/group/operation_load.hpp"

#include <bit>

namespace anello::group {

namespace {

// Returns the part of an average's divisor that is applied before the data is sent. In f16 the sum may overflow
// although the average does not. The early divisor is a power of two, so the division loses no bits except in subnormal
// numbers. late_divisor() is the rest.
double early_divisor(const Call& operation, int size) {
  const bool may_overflow = operation.op == Op::average && operation.wire.value_or(operation.dtype) == DType::f16;
  return may_overflow ? std::bit_ceil(unsigned(size)) : 1;
}

bool is_narrowed(const Call& operation) {
  return operation.wire.value_or(operation.dtype) != operation.dtype;
}

// Returns the divisor that is applied to the result.
double late_divisor(const Call& operation, int size) {
  return operation.op == Op::average ? size / early_divisor(operation, size) : 1;
}

// Returns the factor that is applied to the result when the result is made. If results are sent in a narrower type, the
// product might not fit into that type. Then this returns 1, and multiply_results() multiplies later.
double late_factor(const Call& operation) {
  return is_narrowed(operation) ? 1 : operation.postscale;
}

void set_nothing(run::Load& load, const run::Buffer& nothing) {
  static const run::Arithmetic bytes = run::arithmetic(DType::u8, Op::max);
  load.arithmetic = &bytes;
  load.input = load.output = &nothing;
}

}  // namespace

double early_factor(const Call& operation, int size) {
  return has_elements(operation) ? operation.prescale / early_divisor(operation, size) : 1;
}

void set_load(run::Load& load, const Operation& pending, int size, double factor, const run::Buffer& nothing) {
  const Call& operation = *pending.call;
  load.plan = pending.plan;
  load.result_scaling.reset();
  load.input_scaling.reset();
  if (!has_elements(operation)) return set_nothing(load, nothing);
  load.arithmetic = &pending.arithmetic;
  load.input = &operation.input;
  load.output = &operation.output;
  const double divisor = late_divisor(operation, size), result_factor = late_factor(operation);
  if (divisor != 1 || result_factor != 1) load.result_scaling = run::scaling(operation.dtype, divisor, result_factor);
  if (factor != 1) load.input_scaling = run::scaling(operation.dtype, 1, factor);
}

void multiply_input(run::Load& load, DType dtype) {
  each_run(*load.output, *load.input, load.plan->input_elems, load.arithmetic->shift,
           [&](Bytes out, Bytes in) { run::scale(dtype, out, in, load.input_scaling->factor); });
  load.input = load.output;
  load.input_scaling.reset();
}

bool multiply_narrowed_results(const Operation& pending) {
  const Call& operation = *pending.call;
  if (!is_narrowed(operation) || !has_elements(operation)) return false;
  each_run(operation.output, operation.output, pending.plan->output_elems, pending.arithmetic.shift,
           [&](Bytes run, Bytes) { run::scale(operation.dtype, run, run, operation.postscale); });
  return true;
}

}  // namespace anello::group
