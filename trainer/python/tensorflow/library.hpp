// The ops of the library, and their registration with TensorFlow.
#pragma once
#include <string>

namespace anello::tensorflow {

// Registers all ops and their kernels. `look_up` finds the functions of the TensorFlow that is used. If the ops cannot
// be registered, returns the reason; otherwise an empty text.
std::string register_ops(void* (*look_up)(const char* name));

}  // namespace anello::tensorflow
