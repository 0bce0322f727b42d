// TensorFlow's C API of ops and kernels without TensorFlow: it stores registrations, and runs nodes like an executor.
// It fails where TensorFlow would fail, and ends the test where TensorFlow would read freed memory.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow::fake {

// The numbers of TensorFlow's types.
template <class T>
constexpr int kTypeOf = 0;
template <>
inline constexpr int kTypeOf<float> = 1;
template <>
inline constexpr int kTypeOf<double> = 2;
template <>
inline constexpr int kTypeOf<int32_t> = 3;
template <>
inline constexpr int kTypeOf<uint8_t> = 4;
template <>
inline constexpr int kTypeOf<int64_t> = 9;
// Memory that several tensors share. It is freed with the last of them.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::function<void()> free;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    if (free) free();
  }
};

// A tensor of a graph. Copies share the memory.
struct Value {
  int type = 0;
  std::vector<int64_t> dims;
  std::shared_ptr<Buffer> buffer;
};

Value new_value(int type, const std::vector<int64_t>& dims);
template <class T>
Value value(const std::vector<int64_t>& dims, const std::vector<T>& elements) {
  Value made = new_value(kTypeOf<T>, dims);
  if (!elements.empty()) std::memcpy(made.buffer->data, elements.data(), elements.size() * sizeof(T));
  return made;
}
template <class T>
std::vector<T> elements(const Value& of) {
  std::vector<T> all(of.buffer->bytes / sizeof(T));
  if (!all.empty()) std::memcpy(all.data(), of.buffer->data, of.buffer->bytes);
  return all;
}

using Attribute = std::variant<int32_t, bool, std::string>;

struct AttributeDefinition {
  std::string kind;  // int, bool, string, type or list
  std::optional<Attribute> value_if_missing;
  std::set<std::string> allowed;  // texts or types; empty: any
};
struct Argument {
  std::string name, type;  // the name of an attribute, or of a type
};
struct Op {
  std::string name;
  std::map<std::string, AttributeDefinition> attributes;
  std::vector<Argument> inputs, outputs;
  bool stateful = false;
  ShapeFunction shapes = nullptr;
};

struct KernelDefinition {
  std::string op, device;
  CreateKernel create = nullptr;
  Compute compute = nullptr;
  ComputeAsync compute_async = nullptr;
  DeleteKernel destroy = nullptr;
  std::set<std::string> host_memory;
};

// Restores the state of a process that has just loaded TensorFlow. Objects of earlier tests must be freed.
void begin();
// For register_ops().
void* look_up(const char* name);

const std::map<std::string, Op>& ops();
const KernelDefinition& kernel(const std::string& op, const std::string& device = "CPU");
std::vector<std::string> functions();  // the names of all functions, as in TensorFlow
int living();                          // tensors, statuses and other objects that were made and not freed

// From now on, until begin():
void drop(const std::string& function);                    // look_up() does not find it
void fail(const std::string& function, int calls_before);  // the call after `calls_before` others sets a status
void give_other_callbacks();                               // "done" callbacks are then not a std::function
void call_before(const std::string& function, std::function<void()> hook);

struct Shape {
  bool known = false;
  std::vector<int64_t> dims;  // -1: unknown
  bool operator==(const Shape&) const = default;
};
// Runs an op's shape function, and returns the shapes of its outputs for inputs of these shapes.
std::vector<Shape> infer(const std::string& op, const std::vector<Shape>& inputs, std::size_t outputs);

struct Result {
  int code = 0;
  std::string message;
  std::vector<Value> outputs;
};

struct Run {
  uint64_t frame = 0;
  int64_t iteration = 0;
};

// A node of a graph. Its kernel is made and destroyed with the node.
class Node {
 public:
  // Attributes that are not given have their defaults. `types`: the types of all outputs.
  Node(const std::string& op, const std::string& name, std::map<std::string, Attribute> attributes,
       std::vector<int> types);
  ~Node();
  Node(const Node&) = delete;

  // Why the kernel cannot be made.
  const Result& failure() const { return failure_; }
  // Runs the kernel on this thread. Inputs whose memory has no other holder may be passed on to outputs.
  std::future<Result> run(std::vector<Value> inputs, Run run = {}) const;

 private:
  const KernelDefinition& kernel_;
  std::vector<int> types_;
  void* made_ = nullptr;
  Result failure_;
};

}  // namespace anello::tensorflow::fake
