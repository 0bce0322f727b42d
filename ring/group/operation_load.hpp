// The data and the factors of an operation, in the form that carriers need.
#pragma once
#include "ring/group/operation.hpp"
#include "ring/run/carrier.hpp"

namespace anello::group {

// False for an operation without elements, which is carried out as a barrier, or as a transfer of one byte.
inline bool has_elements(const Call& operation) {
  return operation.count > 0 || !operation.received.empty();
}

// Returns the factor that is applied to the input before the data is sent.
double early_factor(const Call& operation, int size);

// Sets the tensors, the arithmetic and the scaling of an operation of `size` ranks. `factor`: its early_factor().
// `nothing`: the byte that an operation without elements sends.
void set_load(run::Load& load, const Operation& pending, int size, double factor, const run::Buffer& nothing);

// Multiplies the input before other ranks read it directly. Writes the product to the output, which must have room for
// it.
void multiply_input(run::Load& load, DType dtype);

// Multiplies the results by postscale, unless that was done when they were made. Returns true if it multiplied.
bool multiply_narrowed_results(const Operation& pending);
inline bool multiply_results(const Operation& pending) {
  return pending.call->postscale != 1 && multiply_narrowed_results(pending);
}

}  // namespace anello::group
