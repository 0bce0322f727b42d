#include "ring/shm/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "ring/base/text.hpp"

namespace anello::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t page_bytes() {
  return std::size_t(sysconf(_SC_PAGESIZE));
}
std::size_t in_whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// Chooses the address of a mapping. Some first-level caches, such as AMD's, select their ways by a hash of the address.
// They confuse addresses that differ by large powers of two: two ranks that add up 4 MiB then take 60 to 900 us,
// depending on the addresses. So a large mapping begins (colour * kColourBytes) after a multiple of kAlignment. Returns
// the chosen address. Returns null if the kernel may choose, because the mapping is small or there are not enough
// addresses.
void* reserve(std::size_t bytes, unsigned colour) {
  constexpr std::size_t kMinBytes = 64 << 10, kAlignment = 4 << 20, kColourBytes = 68 << 10;
  if (bytes < kMinBytes) return nullptr;
  const std::size_t step = in_whole_pages(kColourBytes);
  const std::size_t all = bytes + page_bytes() + kAlignment + MemoryFile::kColours * step;
  void* const memory = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const std::size_t before = kAlignment - reinterpret_cast<std::uintptr_t>(begin) % kAlignment + colour * step;
  const std::size_t end = before + in_whole_pages(bytes);
  munmap(begin, before);
  if (end < all) munmap(begin + end, all - end);
  return begin + before;
}

// Some systems refuse memory that could be executed (vm.memfd_noexec), so the file is sealed against execution. Linux
// before 6.3 has no such seal.
Descriptor make_file() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING, kNeverExecuted = 0x8;  // MFD_NOEXEC_SEAL
  Descriptor file(memfd_create("anello", kFlags | kNeverExecuted));
  if (!file && errno == EINVAL) file = Descriptor(memfd_create("anello", kFlags));
  if (!file) throw system_error("making shared memory", ErrorCode::network);
  return file;
}

// A file beyond the process's size limit (RLIMIT_FSIZE) would raise a signal that ends the process. (Python ignores
// this signal.)
void check_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
    throw Error(ErrorCode::network, text("making shared memory: ", bytes, " bytes exceed this process's limit of ",
                                         limit.rlim_cur, " for a file; raise it (ulimit -f)"));
}

}  // namespace

MemoryFile MemoryFile::create(std::size_t bytes) {
  check_size_limit(bytes);
  Descriptor file = make_file();
  if (ftruncate(file.get(), off_t(bytes)) != 0) throw system_error("sizing shared memory", ErrorCode::network);
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) throw system_error("sealing shared memory", ErrorCode::network);
  MemoryFile created(file.get(), bytes, MAP_POPULATE, 0);
  created.file_ = std::move(file);
  return created;
}

MemoryFile MemoryFile::adopt(Descriptor file, std::size_t bytes, unsigned colour) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw system_error("looking at shared memory", ErrorCode::network);
  if ((fcntl(file.get(), F_GET_SEALS) & kSeals) != kSeals || std::size_t(status.st_size) != bytes)
    throw Error(ErrorCode::protocol,
                text("shared memory: the peer's file is not sealed or does not have ", bytes, " bytes"));
  return {file.get(), bytes, 0, colour};
}

// If mapping fails, the reserved address range is not unmapped, because another thread may already be using it.
MemoryFile::MemoryFile(int file, std::size_t bytes, int flags, unsigned colour) {
  void* const place = reserve(bytes, colour);
  void* memory = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags | (place ? MAP_FIXED : 0), file, 0);
  if (memory == MAP_FAILED) throw system_error("mapping shared memory", ErrorCode::network);
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

std::size_t MemoryFile::mapped_bytes() const {
  return in_whole_pages(memory_.size());
}

// MADV_POPULATE_WRITE has no effect before Linux 5.14.
void MemoryFile::populate() const {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  madvise(memory_.data(), memory_.size(), kPopulateWrite);
}

MemoryFile::~MemoryFile() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

}  // namespace anello::shm
