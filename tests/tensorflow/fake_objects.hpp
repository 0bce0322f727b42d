// The objects behind the pointers of the fake TensorFlow's C API.
#pragma once
#include <atomic>

#include "tests/tensorflow/fake_tensorflow.hpp"

namespace anello::tensorflow::fake {

inline std::atomic<int> living_objects{0};

// Counts the objects that users of a C API must free.
struct Counted {
  Counted() { living_objects++; }
  Counted(const Counted&) = delete;
  ~Counted() { living_objects--; }
};

// Ends the process for a mistake that TensorFlow may not notice.
[[noreturn]] void misused(const std::string& what);

// Ends the process if the kernel that has this context has ended.
void require_running(const TF_OpKernelContext* context);

// Called first by a function that has a status: clears it, unless the test lets this call fail.
bool fails(const char* function, TF_Status* status);

Op read_op(const TF_OpDefinitionBuilder& builder);  // throws std::invalid_argument

// Ends a kernel; its memory is freed.
void run_done(TF_AsyncOpKernelDoneCallback* done);

}  // namespace anello::tensorflow::fake

struct TF_Status : anello::tensorflow::fake::Counted {
  int code = 0;
  std::string message;
};
struct TF_Tensor : anello::tensorflow::fake::Counted {
  explicit TF_Tensor(anello::tensorflow::fake::Value its, std::shared_ptr<void> of_kernel = nullptr)
      : value(std::move(its)), held(std::move(of_kernel)) {}
  anello::tensorflow::fake::Value value;
  std::shared_ptr<void> held;  // shows whether the kernel that took the value still holds the value
};
struct TF_OpDefinitionBuilder : anello::tensorflow::fake::Counted {
  std::string name;
  std::vector<std::string> attributes, inputs, outputs;
  bool stateful = false;
  anello::tensorflow::ShapeFunction shapes = nullptr;
};
struct TF_KernelBuilder : anello::tensorflow::fake::Counted {
  anello::tensorflow::fake::KernelDefinition kernel;
};
struct TF_ShapeHandle : anello::tensorflow::fake::Counted {
  anello::tensorflow::fake::Shape shape;
};
struct TF_ShapeInferenceContext {
  std::vector<anello::tensorflow::fake::Shape> inputs, outputs;
};
struct TF_OpKernelConstruction {
  std::string name;
  std::map<std::string, anello::tensorflow::fake::Attribute> attributes;
  anello::tensorflow::fake::Result failure;
};
struct TF_OpKernelContext {
  std::vector<std::optional<anello::tensorflow::fake::Value>> inputs, outputs;  // no value: passed on, or not made yet
  std::vector<int> types;                                                       // types of outputs
  anello::tensorflow::fake::Run run;
  anello::tensorflow::fake::Result failure = {};
  std::promise<anello::tensorflow::fake::Result> ended = {};
  std::shared_ptr<void> holds = std::make_shared<int>();
};
