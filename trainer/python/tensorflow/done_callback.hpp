// The callback that ends an asynchronous kernel, kept until it is called.
#pragma once
#include <functional>

#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

// TensorFlow gives a kernel the address of a std::function<void()> that dies when the kernel returns. A kernel that
// ends later must move the function out. TensorFlow's C API does not offer that; it is possible because TensorFlow
// requires libstdc++'s std::function of every custom op. If the object does not look like a std::function, it is not
// moved.
class DoneCallback {
 public:
  explicit DoneCallback(TF_AsyncOpKernelDoneCallback* given);

  // True if the kernel may return before run() is called.
  bool is_kept() const { return kept_ != nullptr; }
  // Ends the kernel; called once. TensorFlow may free the kernel and its context meanwhile.
  void run();

 private:
  TF_AsyncOpKernelDoneCallback* given_;
  std::function<void()> kept_;
};

// True if the third and the fourth word at the address point into code of one shared object: libstdc++'s std::function
// calls these two.
bool is_std_function(const void* address);

}  // namespace anello::tensorflow
