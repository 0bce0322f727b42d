#include "rendezvous/c_api/dlpack.hpp"

#include <utility>

#include "ring/base/check.hpp"

namespace anello::c_api {
namespace {

// DLPack's structs, in the form before its version 1.0: every library accepts them.
struct DLTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

struct Managed {
  DLManagedTensor tensor;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> owner;
};

std::uint8_t code_of(DType dtype) {
  switch (dtype) {
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, dlpack_code, ...) \
  case DType::name:                                                                              \
    return dlpack_code;
#include <anello/element_types.def>
  }
  ANELLO_CHECK(!"a known element type");
}

}  // namespace

void* to_dlpack(const agenda::ArrayView& array, std::shared_ptr<const void> owner) {
  constexpr std::int32_t kHostMemory = 1;
  auto* const made = new Managed{{}, {array.shape.begin(), array.shape.end()}, std::move(owner)};
  DLTensor& tensor = made->tensor.tensor;
  tensor = {.data = array.data, .device_type = kHostMemory, .lanes = 1};
  tensor.ndim = std::int32_t(made->shape.size());
  tensor.shape = made->shape.data();  // strides stay null: contiguous, in row-major order
  tensor.code = code_of(array.dtype);
  tensor.bits = std::uint8_t(8 * size_bytes(array.dtype));
  made->tensor.context = made;
  made->tensor.deleter = [](DLManagedTensor* self) { delete static_cast<Managed*>(self->context); };
  return &made->tensor;
}

}  // namespace anello::c_api
