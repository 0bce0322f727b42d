#include "ring/group/stage.hpp"

#include <anello/error.hpp>
#include <anello/memory.hpp>
#include <new>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::group {

Stage::~Stage() {
  if (view_.memory) shm::abandon(view_.memory);
}

bool Stage::make(std::size_t slab_bytes) try {
  if (view_.memory || failed_) return !failed_;
  StageView made{.slab_bytes = slab_bytes};
  made.memory = static_cast<std::byte*>(allocate(made.bytes()));
  view_ = made;
  new (view_.memory) StageCounters{};
  loan_ = std::move(*shm::lend({view_.memory, view_.bytes()}));
  return true;
} catch (const Error& error) {
  log(Severity::info, text("allreduces go without a stage: ", error.what()));
  return !(failed_ = true);
}

}  // namespace anello::group
