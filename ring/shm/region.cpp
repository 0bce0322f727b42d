#include "ring/shm/region.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <anello/memory.hpp>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"
#include "ring/shm/memory_file.hpp"

namespace anello::shm {
namespace {

class Regions {
 public:
  void* add(std::size_t bytes) {
    MemoryFile file = MemoryFile::create(bytes);
    const std::byte* begin = file.memory().data();
    const std::lock_guard lock(mutex_);
    return regions_.emplace(begin, Region{++last_, std::move(file)}).first->second.file.memory().data();
  }

  // Peers may keep the file mapped for long, so its pages are freed here.
  void remove(const void* begin) {
    const std::lock_guard lock(mutex_);
    const auto region = regions_.find(static_cast<const std::byte*>(begin));
    ANELLO_CHECK(region != regions_.end());
    const MemoryFile& file = region->second.file;
    [[maybe_unused]] const int punched =
        fallocate(file.descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, off_t(file.memory().size()));
    regions_.erase(region);
  }

  std::optional<Place> place_of(ConstBytes run) const {
    const std::shared_lock lock(mutex_);
    auto region = regions_.upper_bound(run.data());
    if (region == regions_.begin()) return std::nullopt;
    --region;
    const std::size_t offset = std::size_t(run.data() - region->first), size = region->second.file.memory().size();
    if (offset >= size || run.size() > size - offset) return std::nullopt;
    return Place{region->second.number, offset, run.size()};
  }

  RegionFile file_of(std::uint64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto region =
        std::ranges::find_if(regions_, [&](const auto& entry) { return entry.second.number == number; });
    ANELLO_CHECK(region != regions_.end());
    const MemoryFile& file = region->second.file;
    return {file.descriptor(), file.memory().size()};
  }

 private:
  struct Region {
    std::uint64_t number;
    MemoryFile file;
  };
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Region> regions_;  // by where they begin
  std::uint64_t last_ = 0;
};

// Never destroyed: a program's static tensors may be freed after static objects of the library.
Regions& regions() {
  static Regions& all = *new Regions;
  return all;
}

}  // namespace

std::optional<Place> place_of(ConstBytes run) {
  return regions().place_of(run);
}

RegionFile file_of(std::uint64_t region) {
  return regions().file_of(region);
}

}  // namespace anello::shm

namespace anello {

void* allocate(std::size_t bytes) {
  constexpr std::size_t kMax = std::size_t(1) << 46;
  try {
    if (bytes > kMax) throw Error(ErrorCode::unsupported, "more than an address space holds");
    return shm::regions().add(std::max<std::size_t>(bytes, 1));
  } catch (const Error& e) {
    throw Error(ErrorCode::unsupported, text("anello::allocate: ", bytes, " bytes: ", e.message()));
  }
}

void deallocate(void* memory) noexcept {
  if (memory) shm::regions().remove(memory);
}

}  // namespace anello
