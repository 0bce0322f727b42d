// The ops of the library, and their registration with TensorFlow.
#pragma once
#include <string>

namespace anello::tensorflow {

// Registers all ops and their kernels with the TensorFlow whose functions `look_up` finds. Returns why that is not
// possible, or an empty text.
std::string register_ops(void* (*look_up)(const char* name));

}  // namespace anello::tensorflow
