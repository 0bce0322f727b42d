#include "trainer/python/tensorflow/attributes.hpp"

#include <charconv>
#include <iterator>
#include <system_error>

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

std::string name_of(TF_OpKernelConstruction* node) {
  const StringView view = tf.OpKernelConstruction_GetName(node);
  const std::string name(view.data, view.length);
  return bool_attribute(node, "ignore_name_scope") ? name.substr(name.rfind('/') + 1) : name;
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

double factor_of(TF_OpKernelConstruction* node, const char* name) {
  const std::string text = string_attribute(node, name);
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, factor);
  if (error != std::errc{} || last != end)
    throw Failure(Code::invalid_argument, std::string(name) + " must be a number, not '" + text + "'");
  return factor;
}

int wire_of(TF_OpKernelConstruction* node) {
  const std::string wire = string_attribute(node, "wire");
  return wire == "f16" ? ANELLO_F16 : wire == "bf16" ? ANELLO_BF16 : 0;
}

}  // namespace anello::tensorflow
