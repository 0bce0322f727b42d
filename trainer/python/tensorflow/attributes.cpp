#include "trainer/python/tensorflow/attributes.hpp"

#include <iterator>

#include "trainer/python/tensorflow/tf_types.hpp"

namespace anello::tensorflow {
namespace {

template <class Value, class Get>
Value attribute(TF_OpKernelConstruction* node, const char* name, Get get) {
  Value value{};
  const Status status;
  get(node, name, &value, status);
  status.require_ok();
  return value;
}

}  // namespace

int int_attribute(TF_OpKernelConstruction* node, const char* name) {
  return attribute<int32_t>(node, name, tf.OpKernelConstruction_GetAttrInt32);
}

double float_attribute(TF_OpKernelConstruction* node, const char* name) {
  return double(attribute<float>(node, name, tf.OpKernelConstruction_GetAttrFloat));
}

bool bool_attribute(TF_OpKernelConstruction* node, const char* name) {
  return attribute<unsigned char>(node, name, tf.OpKernelConstruction_GetAttrBool) != 0;
}

std::string string_attribute(TF_OpKernelConstruction* node, const char* name) {
  const Status status;
  int32_t list_size = 0, length = 0;
  tf.OpKernelConstruction_GetAttrSize(node, name, &list_size, &length, status);
  status.require_ok();
  std::string value(std::size_t(length), '\0');
  if (length > 0) tf.OpKernelConstruction_GetAttrString(node, name, value.data(), value.size(), status);
  status.require_ok();
  return value;
}

std::string key_of(TF_OpKernelConstruction* node) {
  std::string key = string_attribute(node, "key");
  if (!key.empty()) return key;
  const StringView view = tf.OpKernelConstruction_GetName(node);
  key.assign(view.data, view.length);
  return bool_attribute(node, "ignore_name_scope") ? key.substr(key.rfind('/') + 1) : key;
}

anello_op reduction_of(TF_OpKernelConstruction* node) {
  constexpr int kNone = 0;
  constexpr int kOps[] = {ANELLO_AVERAGE, ANELLO_SUM, kNone, ANELLO_MIN, ANELLO_MAX, ANELLO_PRODUCT};
  const int number = int_attribute(node, "reduce_op");
  if (number < 0 || number >= int(std::size(kOps)) || kOps[number] == kNone)
    throw Failure(Code::invalid_argument,
                  "reduce_op " + std::to_string(number) + " is not available: use Average, Sum, Min, Max or Product");
  return anello_op(kOps[number]);
}

int wire_of(TF_OpKernelConstruction* node) {
  const std::string wire = string_attribute(node, "wire");
  return wire == "f16" ? ANELLO_F16 : wire == "bf16" ? ANELLO_BF16 : 0;
}

}  // namespace anello::tensorflow
