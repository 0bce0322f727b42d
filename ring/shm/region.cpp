#include "ring/shm/region.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <new>

#include "ring/base/check.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/base/text.hpp"
#include "ring/shm/memory_file.hpp"

namespace anello::shm {
namespace {

// Peers may keep the file mapped for a long time, so its pages are freed explicitly, by a hole in the file. The hole
// must cover whole pages, because the kernel does not free a part of a page, but only fills it with zeros. A child made
// by fork() shares the pages with its parent, so the child does not free them.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : file_(MemoryFile::create(bytes)) {}
  ~Pages() {
    if (!process_.in_child() && !are_read_)
      fallocate(file_.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(file_.mapped_bytes()));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  const MemoryFile& file() const { return file_; }
  void leave_to_readers() const { are_read_ = true; }

 private:
  ProcessMark process_;
  mutable std::atomic<bool> are_read_ = false;
  MemoryFile file_;
};

class Regions {
 public:
  void* add(std::size_t bytes) {
    auto pages = std::make_shared<const Pages>(bytes);
    std::byte* const begin = pages->file().memory().data();
    const WriterLock lock(mutex_);
    regions_.emplace(begin, Region{++last_, std::move(pages)});
    return begin;
  }

  void remove(const void* begin, bool is_read) {
    std::shared_ptr<const Pages> gone;  // destroyed after the lock is released, which frees the pages
    const WriterLock lock(mutex_);
    const auto region = regions_.find(static_cast<const std::byte*>(begin));
    ANELLO_CHECK(region != regions_.end());
    gone = std::move(region->second.pages);
    if (is_read) gone->leave_to_readers();
    regions_.erase(region);
  }

  std::optional<Loan> lend(ConstBytes run) const {
    const ReaderLock lock(mutex_);
    auto region = regions_.upper_bound(run.data());
    if (region == regions_.begin()) return std::nullopt;
    --region;
    const auto& [number, pages] = region->second;
    const std::size_t offset = std::size_t(run.data() - region->first), size = pages->file().memory().size();
    if (offset >= size || run.size() > size - offset) return std::nullopt;
    return Loan{{number, offset, run.size()}, pages};
  }

  RegionFile file_of(std::uint64_t number) const {
    const ReaderLock lock(mutex_);
    const auto region =
        std::ranges::find_if(regions_, [&](const auto& entry) { return entry.second.number == number; });
    if (region == regions_.end()) throw Error(ErrorCode::network, "memory was freed while an operation used it");
    const MemoryFile& file = region->second.pages->file();
    return {file.descriptor(), file.memory().size()};
  }

  // Holds the lock during fork(), so that the child can free memory. Otherwise another thread might hold the lock in
  // the parent; the child does not have that thread, so nothing would ever release the lock.
  void before_fork() ANELLO_UNCHECKED { mutex_.lock(); }
  void after_fork() ANELLO_UNCHECKED { mutex_.unlock(); }
  void after_fork_in_child() { new (&mutex_) SharedMutex; }

 private:
  struct Region {
    std::uint64_t number;
    std::shared_ptr<const Pages> pages;
  };
  mutable SharedMutex mutex_;
  std::map<const std::byte*, Region> regions_ ANELLO_GUARDED_BY(mutex_);  // by address
  std::uint64_t last_ ANELLO_GUARDED_BY(mutex_) = 0;
};

// Never destroyed, because a program may free static tensors after the library's static objects are destroyed. Needs no
// memory: if its construction could throw, it would be tried again, and would register the handlers of fork() twice.
Regions& regions() {
  alignas(Regions) static std::array<std::byte, sizeof(Regions)> memory;
  static Regions& all = []() noexcept -> Regions& {
    pthread_atfork([] { regions().before_fork(); }, [] { regions().after_fork(); },
                   [] { regions().after_fork_in_child(); });
    return *new (memory.data()) Regions;
  }();
  return all;
}

}  // namespace

std::optional<Loan> lend(ConstBytes run) {
  return regions().lend(run);
}

void abandon(void* memory) noexcept {
  regions().remove(memory, true);
}

RegionFile file_of(std::uint64_t region) {
  return regions().file_of(region);
}

}  // namespace anello::shm

namespace anello {

void* allocate(std::size_t bytes) {
  constexpr std::size_t kMax = std::size_t(1) << 46;
  try {
    if (bytes > kMax) throw Error(ErrorCode::unsupported, "this is more memory than an address space holds");
    return shm::regions().add(std::max<std::size_t>(bytes, 1));
  } catch (const Error& e) {
    throw Error(ErrorCode::unsupported, text("anello::allocate: ", bytes, " bytes: ", e.message()));
  }
}

void deallocate(void* memory) noexcept {
  if (memory) shm::regions().remove(memory, false);
}

}  // namespace anello
