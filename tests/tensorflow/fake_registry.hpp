// The ops and kernels that are registered with the fake TensorFlow.
#pragma once
#include "tests/tensorflow/fake_objects.hpp"

namespace anello::tensorflow::fake {

void forget_injected();

bool add_op(Op op);                                      // false if there is an op of this name
std::string add_kernel(const KernelDefinition& kernel);  // the reason for a refusal, or an empty text

// The functions of the C API, by the files that define them.
CApi functions_of_ops();
void add_functions_of_tensors(CApi& all);
void add_functions_of_shapes(CApi& all);

}  // namespace anello::tensorflow::fake
