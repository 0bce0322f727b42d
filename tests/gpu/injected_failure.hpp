// Which call of a fake fails, and when.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace anello::gpu::fake {

class InjectedFailure {
 public:
  InjectedFailure() = default;
  // The call of this name that comes after `after` others of this name.
  InjectedFailure(std::string call, int after) : call_(std::move(call)), left_(after) {}

  // Counts this call. True if it is the one.
  bool comes(std::string_view call) { return call_ == call && left_-- == 0; }

 private:
  std::string call_;  // empty: none
  int left_ = 0;
};

}  // namespace anello::gpu::fake
