#include "ring/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(std::string_view what) {
  throw Error(Code::network, text("shared memory: ", what, ": ", std::system_category().message(errno)));
}

}  // namespace

Segment Segment::create(std::size_t bytes) {
  Segment segment(memfd_create("anello", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (segment.descriptor_ < 0) fail("memfd_create");
  if (ftruncate(segment.descriptor_, off_t(bytes)) != 0) fail("ftruncate");
  if (fcntl(segment.descriptor_, F_ADD_SEALS, kSeals) != 0) fail("seal");
  segment.map(bytes);
  return segment;
}

Segment Segment::adopt(int descriptor, std::size_t bytes) {
  Segment segment(descriptor);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail("fstat");
  if ((fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals || std::size_t(status.st_size) != bytes)
    throw Error(Code::protocol, text("shared memory: not a sealed segment of ", bytes, " bytes"));
  segment.map(bytes);
  return segment;
}

// Populated at once: page faults now, not on the path of a collective.
void Segment::map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_, 0);
  if (memory == MAP_FAILED) fail("mmap");
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

Segment::Segment(Segment&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), memory_(std::exchange(other.memory_, {})) {}

Segment::~Segment() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace anello
