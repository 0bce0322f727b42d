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

std::string_view remedy_for_lack_of_files(int error) {
  if (error == EMFILE) return "; raise the limit (ulimit -n)";
  if (error == ENFILE) return "; raise the limit of the whole system (sysctl fs.file-max)";
  return {};
}

Error system_error(std::string_view attempt, ErrorCode code) {
  const int why = errno;
  return {code, text(attempt, ": ", std::strerror(why), remedy_for_lack_of_files(why))};
}

}  // namespace anello
