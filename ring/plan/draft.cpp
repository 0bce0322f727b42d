#include "ring/plan/draft.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "ring/base/check.hpp"
#include "ring/plan/history.hpp"

namespace anello {
namespace {

constexpr std::uint64_t kWindowAlignElems = 16;  // operands of four bytes begin on cache lines of their own

Stream::Kind kind_of(Act act) {
  if (act == Act::send) return Stream::Kind::send;
  return act == Act::fold ? Stream::Kind::local : Stream::Kind::receive;
}

// A stricter dependency on a step replaces a looser one.
void tidy(std::vector<Dep>& deps) {
  std::sort(deps.begin(), deps.end(),
            [](Dep a, Dep b) { return a.step != b.step ? a.step < b.step : a.whole > b.whole; });
  const auto end = std::unique(deps.begin(), deps.end(), [](Dep a, Dep b) { return a.step == b.step; });
  deps.erase(end, deps.end());
}

}  // namespace

void Draft::add(Act act, int peer, Range range, Operand place, std::vector<Operand> sources) {
  if (range.count == 0) return;
  Item item;
  item.step.range = range;
  item.step.place = place;
  item.step.act = act;
  item.step.order = std::uint32_t(items_.size());
  item.step.incoming_left = act == Act::reduce && peer < rank();
  item.peer = peer;
  item.sources = std::move(sources);
  item.slab = slab_;
  items_.push_back(std::move(item));
}
void Draft::send(int peer, Range range, Operand from) {
  add(Act::send, peer, range, from, {});
}
void Draft::copy(int peer, Range range, Operand to) {
  ANELLO_CHECK(to.space != Space::input);
  add(Act::copy, peer, range, to, {});
}
void Draft::reduce(int peer, Range range, Operand to, Operand local) {
  ANELLO_CHECK(to.space != Space::input);
  add(Act::reduce, peer, range, to, {local});
}
void Draft::fold(Range range, std::span<const Operand> sources) {
  add(Act::fold, -1, range, at(Space::output, range), {sources.begin(), sources.end()});
}

Operand Draft::at(Space space, Range range) const {
  ANELLO_CHECK(space != Space::window);
  return {space, range.begin - plan_.base(space)};
}
Operand Draft::window(std::uint64_t elems) {
  const Operand fresh{Space::window, window_used_};  // in this slab's half, until place_windows()
  window_used_ += (elems + kWindowAlignElems - 1) / kWindowAlignElems * kWindowAlignElems;
  window_most_ = std::max(window_most_, window_used_);
  return fresh;
}
void Draft::next_slab() {
  slab_++;
  window_used_ = 0;
}

Plan Draft::finish() && {
  place_windows();
  number_streams();
  group_by_stream();
  derive_deps();
  assemble();
  return std::move(plan_);
}

void Draft::place_windows() {
  plan_.window_elems = slab_ == 0 ? window_most_ : 2 * window_most_;
  for (Item& item : items_) {
    const std::uint64_t half = item.slab % 2 * window_most_;
    if (item.step.place.space == Space::window) item.step.place.at += half;
    for (Operand& source : item.sources)
      if (source.space == Space::window) source.at += half;
  }
}

// By kind, and within a kind as they first appear.
void Draft::number_streams() {
  using Key = std::pair<Stream::Kind, std::int32_t>;
  std::map<Key, std::uint32_t> number;
  for (const Item& item : items_) {
    const Key key{kind_of(item.step.act), item.peer};
    if (number.try_emplace(key, 0).second) plan_.streams.push_back({0, 0, item.peer, key.first});
  }
  std::stable_sort(plan_.streams.begin(), plan_.streams.end(),
                   [](const Stream& a, const Stream& b) { return a.kind < b.kind; });
  for (std::uint32_t s = 0; s < plan_.streams.size(); s++) number[{plan_.streams[s].kind, plan_.streams[s].peer}] = s;
  for (Item& item : items_) item.step.stream = number.at({kind_of(item.step.act), item.peer});
}

void Draft::group_by_stream() {
  by_stream_.resize(items_.size());
  std::iota(by_stream_.begin(), by_stream_.end(), 0);
  std::stable_sort(by_stream_.begin(), by_stream_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return items_[a].step.stream < items_[b].step.stream; });
  position_.resize(items_.size());
  for (std::uint32_t at = 0; at < by_stream_.size(); at++) position_[by_stream_[at]] = at;
}

void Draft::derive_deps() {
  // Input and output as one memory, in the operation's coordinates: in place is the strict case.
  const std::uint64_t elems = std::max(plan_.input_base + plan_.input_elems, plan_.output_base + plan_.output_elems);
  History buffers(elems), window(plan_.window_elems);
  deps_.resize(items_.size());
  for (std::uint32_t i = 0; i < items_.size(); i++) {
    const Step& step = items_[i].step;
    const auto touch = [&](Operand operand, bool writes) {
      const bool in_window = operand.space == Space::window;
      const std::uint64_t begin = operand.at + plan_.base(operand.space);
      const History::Touch self{i, std::int64_t(step.range.begin - begin)};
      const auto after = [&](const History::Touch& earlier) {
        const bool same_stream = items_[earlier.item].step.stream == step.stream;
        if (!same_stream) deps_[i].push_back({position_[earlier.item], earlier.shift != self.shift});
      };
      History& memory = in_window ? window : buffers;
      const std::uint64_t end = begin + step.range.count;
      return writes ? memory.write(begin, end, self, after) : memory.read(begin, end, self, after);
    };
    for (const Operand& source : items_[i].sources) touch(source, false);
    touch(step.place, step.act != Act::send);
    tidy(deps_[i]);
  }
}

void Draft::assemble() {
  for (const std::uint32_t i : by_stream_) {
    Item& item = items_[i];
    item.step.first_source = std::uint32_t(plan_.sources.size());
    item.step.sources = std::uint32_t(item.sources.size());
    item.step.first_dep = std::uint32_t(plan_.deps.size());
    item.step.deps = std::uint32_t(deps_[i].size());
    plan_.sources.insert(plan_.sources.end(), item.sources.begin(), item.sources.end());
    plan_.deps.insert(plan_.deps.end(), deps_[i].begin(), deps_[i].end());
    Stream& stream = plan_.streams[item.step.stream];
    if (stream.end == 0) stream.first = std::uint32_t(plan_.steps.size());
    plan_.steps.push_back(item.step);
    stream.end = std::uint32_t(plan_.steps.size());
  }
}

}  // namespace anello
