// TensorFlow's numbers and objects in C++: codes, types, and handles that free their objects.
#pragma once
#include <anello/anello.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

enum class Code {
  ok = 0,
  cancelled = 1,
  invalid_argument = 3,
  resource_exhausted = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13
};

// The code `internal` is used only if the world has ended. The codes `aborted` and `unavailable` are not used: after
// them, TensorFlow's sessions would start again, forever.
Code code_of(anello_status status);

// The error of a kernel.
class Failure : public std::runtime_error {
 public:
  Failure(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  // Made from an error of the library.
  Failure(anello_status status, const std::string& message) : Failure(code_of(status), message) { status_ = status; }
  Code code() const { return code_; }
  anello_status status() const { return status_; }  // ANELLO_OK: the library has not failed

 private:
  Code code_;
  anello_status status_ = ANELLO_OK;
};

// Runs `step` and returns its error, because no exception may leave a function that TensorFlow calls.
template <class Step>
std::optional<Failure> failure_of(Step step) {
  try {
    step();
    return std::nullopt;
  } catch (const Failure& failure) {
    return failure;
  } catch (const std::exception& error) {  // out of memory
    return Failure(Code::resource_exhausted, error.what());
  }
}

// Throws the error of this thread's last call unless the status is ANELLO_OK.
void require(anello_status status);

class Status {
 public:
  Status() : its_(tf.NewStatus()) {}
  explicit Status(const Failure& failure);
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() { tf.DeleteStatus(its_); }

  operator TF_Status*() const { return its_; }
  bool ok() const { return tf.GetCode(its_) == int(Code::ok); }
  const char* message() const { return tf.Message(its_); }
  // Throws if TensorFlow has put an error into this status.
  void require_ok() const;

 private:
  TF_Status* its_;
};

// TensorFlow's numbers of the types of outputs that Anello makes itself.
constexpr int kInt32 = 3, kInt64 = 9;

// The names of the types that Anello has, in the form that the definition of an op needs: {float, double}.
std::string names_of_types();
// Returns Anello's type. Throws Failure if Anello has no such type.
anello_dtype dtype_of(int type);

struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { tf.DeleteTensor(tensor); }
};
using Tensor = std::unique_ptr<TF_Tensor, DeleteTensor>;

std::vector<int64_t> dims_of(const TF_Tensor* tensor);

Tensor input_of(TF_OpKernelContext* context, int index);
Tensor allocate_output(TF_OpKernelContext* context, int index, int type, std::span<const int64_t> dims);
// Makes an output of int32 or int64.
template <class T>
void set_output(TF_OpKernelContext* context, int index, std::span<const int64_t> dims, const std::vector<T>& values) {
  const Tensor made = allocate_output(context, index, sizeof(T) == 4 ? kInt32 : kInt64, dims);
  std::copy(values.begin(), values.end(), static_cast<T*>(tf.TensorData(made.get())));
}

// A list of tensors for the library. The tensors must live as long as the list.
class Arrays {
 public:
  void add(const TF_Tensor* tensor);
  const anello_array* data() const { return arrays_.data(); }
  std::size_t size() const { return arrays_.size(); }

 private:
  std::vector<std::vector<uint64_t>> shapes_;
  std::vector<anello_array> arrays_;
};

}  // namespace anello::tensorflow

ANELLO_API_BEGIN
// Returns the number by which TensorFlow identifies the type at `index` in Anello's list of types; 0 after the end of
// the list. Python calls it with 0, 1, ... until then.
extern "C" int anello_tensorflow_type(int index);
ANELLO_API_END
