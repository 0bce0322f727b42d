#include "ring/base/standard_descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <iostream>

#include "ring/base/descriptor.hpp"

namespace anello {

void open_missing_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) throw system_error("opening /dev/null");
}

void require_output_written() {
  if (!std::cout.flush())
    throw Error(ErrorCode::file,
                "standard output cannot be written, and output is lost; its disk or pipe may be full or closed");
}

}  // namespace anello
