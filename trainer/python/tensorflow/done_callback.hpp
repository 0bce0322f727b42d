// The callback that ends an asynchronous kernel, kept until it is called.
#pragma once
#include <functional>

#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

// TensorFlow passes to a kernel the address of a std::function<void()>, which is destroyed when the kernel function
// returns. If the kernel ends later, it must move the std::function to a place of its own. TensorFlow's C API does not
// offer this move. It is possible because TensorFlow requires custom ops to be built with libstdc++'s std::function. If
// the object does not look like such a std::function, it is not moved.
class DoneCallback {
 public:
  explicit DoneCallback(TF_AsyncOpKernelDoneCallback* given);

  // True if the kernel may return before run() is called.
  bool is_kept() const { return kept_ != nullptr; }
  // Ends the kernel; must be called only once. TensorFlow may free the kernel and its context during the call.
  void run();

 private:
  TF_AsyncOpKernelDoneCallback* given_;
  std::function<void()> kept_;
};

// True if the third and the fourth word at the address point into the code of one shared object. In libstdc++'s
// std::function, these two words point to functions.
bool is_std_function(const void* address);

}  // namespace anello::tensorflow
