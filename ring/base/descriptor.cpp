#include "ring/base/descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ring/base/text.hpp"

namespace anello {

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Error system_error(std::string_view attempt, ErrorCode code) {
  return {code, text(attempt, ": ", std::strerror(errno))};
}

}  // namespace anello
