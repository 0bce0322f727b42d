// Decides which call of a fake fails, and when.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace anello::gpu::fake {

class InjectedFailure {
 public:
  InjectedFailure() = default;
  // Fails the call of this name that comes after `after` other calls of this name.
  InjectedFailure(std::string call, int after) : call_(std::move(call)), left_(after) {}

  // Counts this call. Returns true if this call must fail.
  bool comes(std::string_view call) { return call_ == call && left_-- == 0; }

 private:
  std::string call_;  // empty: none
  int left_ = 0;
};

}  // namespace anello::gpu::fake
