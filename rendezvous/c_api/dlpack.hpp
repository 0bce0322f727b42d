// Gives results of named operations as DLPack tensors, which other libraries accept without a copy.
#pragma once
#include <memory>

#include "ring/agenda/named_call.hpp"

namespace anello::c_api {

// Makes a DLManagedTensor of an array in host memory. It keeps `owner` alive until its deleter is called, by any
// thread.
void* to_dlpack(const agenda::ArrayView& array, std::shared_ptr<const void> owner);

}  // namespace anello::c_api
