// The data and the factors of an operation, as a carrier takes them.
#pragma once
#include "ring/group/operation.hpp"
#include "ring/run/carrier.hpp"

namespace anello::group {

// An operation without elements is carried out as a barrier, or as a transfer of one byte.
inline bool has_elements(const Call& operation) {
  return operation.count > 0 || !operation.received.empty();
}

// Returns the factor that is applied to the input before the data is sent.
double early_factor(const Call& operation, int size);

// Sets the tensors, the arithmetic and the scaling of an operation of `size` ranks, of which `factor` is the
// early_factor(). `nothing`: memory for the byte of an operation without elements.
void set_load(run::Load& load, const Operation& pending, int size, double factor, Bytes nothing);

// Applies the factor of the input now, because other ranks will read it directly. The output takes the product; it must
// have room for that.
void multiply_input(run::Load& load, DType dtype);

// Multiplies the results by postscale, if that was not done when they were made. False: it was.
bool multiply_results(const Operation& pending);

}  // namespace anello::group
