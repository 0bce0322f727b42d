#include "trainer/python/tensorflow/tf_types.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace anello::tensorflow {
namespace {

constexpr struct Type {
  int number;  // TensorFlow's number of the type
  anello_dtype dtype;
  const char* name;  // the type's name in the definition of an op
} kTypes[] = {{1, ANELLO_F32, "float"},      {2, ANELLO_F64, "double"}, {kInt32, ANELLO_I32, "int32"},
              {4, ANELLO_U8, "uint8"},       {5, ANELLO_I16, "int16"},  {6, ANELLO_I8, "int8"},
              {kInt64, ANELLO_I64, "int64"}, {10, ANELLO_BOOL, "bool"}, {14, ANELLO_BF16, "bfloat16"},
              {17, ANELLO_U16, "uint16"},    {19, ANELLO_F16, "half"},  {22, ANELLO_U32, "uint32"},
              {23, ANELLO_U64, "uint64"}};

}  // namespace

Code code_of(anello_status status) {
  switch (status) {
    case ANELLO_OK:
      return Code::ok;
    case ANELLO_INVALID_ARGUMENT:
      return Code::invalid_argument;
    case ANELLO_MISMATCH:
      return Code::failed_precondition;
    case ANELLO_UNSUPPORTED:
      return Code::unimplemented;
    case ANELLO_OUT_OF_MEMORY:
      return Code::resource_exhausted;
    default:
      return Code::internal;
  }
}

void require(anello_status status) {
  if (status != ANELLO_OK) throw Failure(status, anello_last_error());
}

Status::Status(const Failure& failure) : Status() {
  tf.SetStatus(its_, int(failure.code()), failure.what());
}

void Status::require_ok() const {
  if (!ok()) throw Failure(Code(tf.GetCode(its_)), message());
}

std::string names_of_types() {
  std::string names;
  for (const Type& each : kTypes) names += (names.empty() ? "{" : ", ") + std::string(each.name);
  return names + "}";
}

anello_dtype dtype_of(int type) {
  for (const Type& each : kTypes)
    if (each.number == type) return each.dtype;
  throw Failure(Code::invalid_argument, "Anello has no type for TensorFlow's number " + std::to_string(type));
}

std::vector<int64_t> dims_of(const TF_Tensor* tensor) {
  std::vector<int64_t> dims(std::size_t(tf.NumDims(tensor)));
  for (std::size_t d = 0; d < dims.size(); d++) dims[d] = tf.Dim(tensor, int(d));
  return dims;
}

Tensor input_of(TF_OpKernelContext* context, int index) {
  const Status status;
  TF_Tensor* tensor = nullptr;
  tf.GetInput(context, index, &tensor, status);
  Tensor input(tensor);
  status.require_ok();
  return input;
}

Tensor allocate_output(TF_OpKernelContext* context, int index, int type, std::span<const int64_t> dims) {
  const Status status;
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  Tensor made(tf.AllocateOutput(context, index, type, dims.data(), int(dims.size()),
                                std::size_t(count) * tf.DataTypeSize(type), status));
  status.require_ok();
  return made;
}

void Arrays::add(const TF_Tensor* tensor) {
  static char nothing;  // stands for a tensor without elements: TensorFlow may return nullptr for it
  const std::vector<int64_t> dims = dims_of(tensor);
  const auto& shape = shapes_.emplace_back(dims.begin(), dims.end());
  void* data = tf.TensorData(tensor);
  arrays_.push_back({data ? data : &nothing, shape.data(), shape.size(), dtype_of(tf.TensorType(tensor))});
}

}  // namespace anello::tensorflow

int anello_tensorflow_type(int index) {
  using anello::tensorflow::kTypes;
  return index < int(std::size(kTypes)) ? kTypes[index].number : 0;
}
