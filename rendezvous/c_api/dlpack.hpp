// Gives results of named operations as DLPack tensors, which other libraries accept without a copy.
#pragma once
#include <memory>

#include "ring/agenda/named_call.hpp"

namespace anello::c_api {

// Makes a DLManagedTensor of an array in host memory. The tensor keeps `owner` alive until a thread calls the tensor's
// deleter; any thread may do this.
void* to_dlpack(const agenda::ArrayView& array, std::shared_ptr<const void> owner);

}  // namespace anello::c_api
