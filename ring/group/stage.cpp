#include "ring/group/stage.hpp"

#include <anello/error.hpp>
#include <anello/memory.hpp>
#include <new>
#include <utility>

namespace anello::group {

Stage::~Stage() {
  if (view_.memory) shm::abandon(view_.memory);
}

bool Stage::make(std::size_t slab_bytes) try {
  if (view_.memory) return true;
  StageView made{.slab_bytes = slab_bytes};
  made.memory = static_cast<std::byte*>(allocate(made.bytes()));
  view_ = made;
  new (view_.memory) StageCounters{};
  loan_ = std::move(*shm::lend({view_.memory, view_.bytes()}));
  return true;
} catch (const Error&) {
  return false;
}

}  // namespace anello::group
