// One descriptor kept open, so that a process that has no other left can still accept a connection and hear who it is.
// On one thread.
#pragma once
#include <fcntl.h>
#include <unistd.h>

namespace anello {

class SpareDescriptor {
 public:
  SpareDescriptor() { take(); }
  ~SpareDescriptor() { give_up(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  // False if none is to be had.
  bool take() {
    if (descriptor_ < 0) descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    return descriptor_ >= 0;
  }
  void give_up() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace anello
