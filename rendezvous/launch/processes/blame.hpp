// The rank that the ranks themselves name as the culprit in their last words. Owned by the
// FixedSupervisor.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "ring/world/last_word.hpp"

namespace anello::launch {

class Blame {
 public:
  // `newest_world` returns the generation of the newest world that all its ranks have joined; 0: none.
  Blame(int ranks, std::function<std::uint32_t()> newest_world)
      : ranks_(ranks), newest_world_(std::move(newest_world)) {}

  // Keeps the last word (last_word.hpp) about the newest world; if there are several, the first one.
  void received(const world::LastWord& word) {
    if (word.culprit < -1 || word.culprit >= ranks_) return;
    if (!word_ || word.generation > word_->generation) word_ = word;
  }
  // Null if there is no last word. Also null if the ranks have recovered from the failure, that is, have joined a newer
  // world.
  const world::LastWord* word() const { return word_ && word_->generation >= newest_world_() ? &*word_ : nullptr; }
  bool is_on(int rank) const { return word() && word()->culprit == rank; }

 private:
  int ranks_;
  std::function<std::uint32_t()> newest_world_;
  std::optional<world::LastWord> word_;
};

}  // namespace anello::launch
