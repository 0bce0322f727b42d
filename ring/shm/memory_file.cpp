#include "ring/shm/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/base/text.hpp"

namespace anello::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

MemoryFile MemoryFile::create(std::size_t bytes) {
  Descriptor file(memfd_create("anello", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw system_error("making shared memory", ErrorCode::network);
  if (ftruncate(file.get(), off_t(bytes)) != 0) throw system_error("sizing shared memory", ErrorCode::network);
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) throw system_error("sealing shared memory", ErrorCode::network);
  MemoryFile created(file.get(), bytes, Access::write);
  created.file_ = std::move(file);
  return created;
}

MemoryFile MemoryFile::adopt(Descriptor file, std::size_t bytes, Access access) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw system_error("looking at shared memory", ErrorCode::network);
  if ((fcntl(file.get(), F_GET_SEALS) & kSeals) != kSeals || std::size_t(status.st_size) != bytes)
    throw Error(ErrorCode::protocol, text("shared memory: not a sealed file of ", bytes, " bytes"));
  return {file.get(), bytes, access};
}

// MAP_POPULATE: page faults happen here, not in a collective.
MemoryFile::MemoryFile(int file, std::size_t bytes, Access access) {
  const int protection = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* memory = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, file, 0);
  if (memory == MAP_FAILED) throw system_error("mapping shared memory", ErrorCode::network);
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

MemoryFile::~MemoryFile() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

}  // namespace anello::shm
