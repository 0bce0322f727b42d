// Registers the ops while TensorFlow loads the library: tf.load_op_library() collects the ops that are registered
// during the call.
#include <anello/export.h>
#include <dlfcn.h>

#include "trainer/python/tensorflow/library.hpp"

namespace anello::tensorflow {
namespace {

void* framework = nullptr;

std::string register_with_loaded_tensorflow() {
  framework = dlopen("libtensorflow_framework.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (!framework) return "libtensorflow_framework.so.2 is not loaded: import tensorflow first";
  return register_ops([](const char* name) { return dlsym(framework, name); });
}

const std::string kFailure = register_with_loaded_tensorflow();

}  // namespace
}  // namespace anello::tensorflow

ANELLO_API_BEGIN
// Returns why there are no ops, as one clause of a sentence; NULL if there are ops. Called by Python.
extern "C" const char* anello_tensorflow_failure() {
  return anello::tensorflow::kFailure.empty() ? nullptr : anello::tensorflow::kFailure.c_str();
}
ANELLO_API_END
