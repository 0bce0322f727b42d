#include "ring/plan/plan_builder.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ring/base/check.hpp"
#include "ring/plan/access_history.hpp"

namespace anello::plan {
namespace {

constexpr std::uint64_t kScratchAlignElems = 16;  // so that operands with elements of four bytes begin at a cache line

Stream::Kind kind_of(Act act) {
  if (act == Act::send) return Stream::Kind::send;
  return act == Act::fold ? Stream::Kind::local : Stream::Kind::receive;
}

// If there are several dependencies on one step, keeps only the strictest.
void tidy(std::vector<Dep>& deps) {
  std::sort(deps.begin(), deps.end(),
            [](Dep a, Dep b) { return a.step != b.step ? a.step < b.step : a.whole > b.whole; });
  const auto end = std::unique(deps.begin(), deps.end(), [](Dep a, Dep b) { return a.step == b.step; });
  deps.erase(end, deps.end());
}

}  // namespace

PlanBuilder::Subset PlanBuilder::begin_among(std::span<const int> members, Space contributions) {
  ANELLO_CHECK(contributions != Space::scratch);
  Subset subset{{}, 0, contributions == Space::input ? subset_.contributions : contributions};
  subset.members.reserve(members.size());
  for (const int member : members) subset.members.push_back(rank_of(member));
  const auto self = std::ranges::find(subset.members, plan_.rank);
  ANELLO_CHECK(self != subset.members.end());
  subset.rank = int(self - subset.members.begin());
  return std::exchange(subset_, std::move(subset));
}

void PlanBuilder::add(Act act, int peer, Range range, Operand place, std::span<const Operand> sources) {
  if (range.count == 0) return;
  if (peer >= 0) peer = rank_of(peer);
  Item item;
  item.step.range = range;
  item.step.place = place;
  item.step.first_source = std::uint32_t(sources_.size());
  item.step.sources = std::uint32_t(sources.size());
  item.step.act = act;
  item.step.order = std::uint32_t(items_.size());
  item.step.incoming_left = act == Act::reduce && peer < plan_.rank;
  item.peer = peer;
  item.second_half = slab_ % 2 != 0;
  items_.push_back(item);
  sources_.insert(sources_.end(), sources.begin(), sources.end());
}
void PlanBuilder::send(int peer, Range range, Operand from) {
  add(Act::send, peer, range, from, {});
}
void PlanBuilder::copy(int peer, Range range, Operand to) {
  ANELLO_CHECK(to.space != Space::input);
  add(Act::copy, peer, range, to, {});
}
void PlanBuilder::reduce(int peer, Range range, Operand to, Operand local) {
  ANELLO_CHECK(to.space != Space::input);
  add(Act::reduce, peer, range, to, {&local, 1});
}
void PlanBuilder::fold(Range range, Operand to, std::span<const Operand> sources) {
  ANELLO_CHECK(to.space != Space::input);
  add(Act::fold, -1, range, to, sources);
}

void PlanBuilder::makes_result() {
  if (!items_.empty()) items_.back().step.makes_result = true;
}

Operand PlanBuilder::at(Space space, Range range) const {
  ANELLO_CHECK(space != Space::scratch);
  if (space == Space::input) space = subset_.contributions;
  return {space, range.begin - plan_.base(space)};
}
Operand PlanBuilder::scratch(std::uint64_t elems) {
  std::uint64_t& used = scratch_used_[slab_ % 2];
  const Operand fresh{Space::scratch, used};  // relative to this slab's half of the scratch, until place_scratch()
  used += (elems + kScratchAlignElems - 1) / kScratchAlignElems * kScratchAlignElems;
  scratch_max_ = std::max(scratch_max_, used);
  return fresh;
}
void PlanBuilder::slab(std::uint64_t index) {
  slab_ = index;
  if (index < slabs_) return;
  slabs_ = index + 1;
  scratch_used_[index % 2] = 0;
}

Plan PlanBuilder::finish() && {
  place_scratch();
  number_streams();
  group_by_stream();
  derive_deps();
  mark_results();
  mark_replies();
  assemble();
  return std::move(plan_);
}

void PlanBuilder::place_scratch() {
  plan_.scratch_elems = slabs_ == 1 ? scratch_max_ : 2 * scratch_max_;
  for (Item& item : items_) {
    if (!item.second_half) continue;
    if (item.step.place.space == Space::scratch) item.step.place.at += scratch_max_;
    for (Operand& source : std::span(sources_).subspan(item.step.first_source, item.step.sources))
      if (source.space == Space::scratch) source.at += scratch_max_;
  }
}

// Numbers streams by kind, and within a kind in the order in which they first appear.
void PlanBuilder::number_streams() {
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

void PlanBuilder::group_by_stream() {
  for (const Item& item : items_) plan_.streams[item.step.stream].end++;
  std::uint32_t first = 0;
  for (Stream& stream : plan_.streams) {
    stream.first = first;
    first += std::exchange(stream.end, first);
  }
  position_.resize(items_.size());
  by_stream_.resize(items_.size());
  for (std::uint32_t i = 0; i < items_.size(); i++) {
    position_[i] = plan_.streams[items_[i].step.stream].end++;
    by_stream_[position_[i]] = i;
  }
}

void PlanBuilder::derive_deps() {
  // Treats input and output as one memory in the operation's coordinates, because the in-place case is the stricter
  // one. If a plan works only out of place, the output follows the input in this memory.
  const std::uint64_t input_base = plan_.input_base,
                      output_base = plan_.out_of_place_only ? plan_.input_elems : plan_.output_base;
  const std::uint64_t elems = std::max(input_base + plan_.input_elems, output_base + plan_.output_elems);
  const std::array<std::uint64_t, 3> bases{input_base, output_base, 0};
  AccessHistory buffers(elems), scratch(plan_.scratch_elems);
  std::vector<Dep> deps;
  for (std::uint32_t i = 0; i < items_.size(); i++) {
    Step& step = items_[i].step;
    deps.clear();
    const auto touch = [&](Operand operand, bool writes) {
      const bool in_scratch = operand.space == Space::scratch;
      const std::uint64_t begin = operand.at + bases[std::size_t(operand.space)];
      const AccessHistory::Touch self{i, std::int64_t(step.range.begin - begin)};
      const auto after = [&](const AccessHistory::Touch& earlier) {
        const bool same_stream = items_[earlier.item].step.stream == step.stream;
        if (!same_stream) deps.push_back({position_[earlier.item], earlier.shift != self.shift});
      };
      AccessHistory& memory = in_scratch ? scratch : buffers;
      const std::uint64_t end = begin + step.range.count;
      return writes ? memory.write(begin, end, self, after) : memory.read(begin, end, self, after);
    };
    for (std::uint32_t k = 0; k < step.sources; k++) touch(sources_[step.first_source + k], false);
    touch(step.place, step.act != Act::send);
    tidy(deps);
    step.first_dep = std::uint32_t(deps_.size());
    step.deps = std::uint32_t(deps.size());
    deps_.insert(deps_.end(), deps.begin(), deps.end());
  }
}

// The last reduction into a part of the output makes the result. An earlier reduction makes only a sum of some
// contributions, and is overwritten. A copy receives a result that another rank has made, so it makes no result.
void PlanBuilder::mark_results() {
  const auto reduces = [](const Step& step) { return step.act == Act::reduce || step.sources > 1; };
  AccessHistory output(plan_.output_elems);
  for (std::uint32_t i = 0; i < items_.size(); i++) {
    const Step& step = items_[i].step;
    if (step.place.space != Space::output || !(step.act == Act::copy || reduces(step))) continue;
    output.write(step.place.at, step.place.at + step.range.count, {i, 0}, [](const auto& /*earlier*/) {});
  }
  output.read(0, plan_.output_elems, {}, [&](const AccessHistory::Touch& last) {
    Step& step = items_[last.item].step;
    step.makes_result = reduces(step);
  });
}

// The k-th contribution that this rank sends comes back as the k-th copy that it receives. The result of its k-th
// reduction is the k-th result that it sends back. Both ranks find the same pairs, because each rank sends what the
// other receives; check() verifies the pairs.
void PlanBuilder::mark_replies() {
  if (plan_.world != 2) return;
  std::vector<std::uint32_t> contributions, results, reductions, copies;  // indices in items_
  for (std::uint32_t i = 0; i < items_.size(); i++) {
    const Step& step = items_[i].step;
    if (step.act == Act::fold || step.place.space == Space::scratch) return;
    if (step.act == Act::send)
      (step.place.space == Space::input ? contributions : results).push_back(i);
    else
      (step.act == Act::reduce ? reductions : copies).push_back(i);
    for (std::uint32_t k = 0; k < step.deps; k++) {
      const Step& other = items_[by_stream_[deps_[step.first_dep + k].step]].step;
      if (other.act == Act::send && other.place.space == Space::output)
        return;  // this step waits for a send that would be left out with replies
    }
  }
  const auto follow = [&](const auto& first, const auto& second) {
    return !first.empty() && std::ranges::equal(first, second, [&](std::uint32_t a, std::uint32_t b) {
      return a < b && items_[a].step.range == items_[b].step.range;
    });
  };
  if (!follow(contributions, copies) || !follow(reductions, results)) return;
  for (const auto& items : {results, reductions, copies})
    for (const std::uint32_t i : items) items_[i].step.reply = true;
  // Counts the elements that are on their way. When a rank reduces for the k-th time, the other rank has sent k
  // contributions, and has received as many copies as this rank. If this rank has no k-th reduction, only the other
  // rank reduces then. Uses the larger of the two ranks' counts.
  std::uint64_t waiting = 0;
  const auto count = [&](const auto& items, std::size_t k) {
    return k < items.size() ? items_[items[k]].step.range.count : 0;
  };
  const auto larger = [&](std::size_t k) { return std::max(count(contributions, k), count(reductions, k)); };
  for (std::size_t k = 0, copied = 0; k < std::max(reductions.size(), contributions.size()); k++) {
    const std::uint32_t then = k < reductions.size() ? reductions[k] : contributions[k];
    for (; copied < k && copied < copies.size() && copies[copied] < then; copied++) waiting -= larger(copied);
    plan_.reply_elems = std::max(plan_.reply_elems, waiting += larger(k));
  }
}

void PlanBuilder::assemble() {
  // Appends to `to` the `count` entries of `from` that begin at `first`. Then sets `first` to the index of these
  // entries in `to`.
  const auto carry = [](auto& to, const auto& from, std::uint32_t& first, std::uint32_t count) {
    const auto begin = from.begin() + first;
    first = std::uint32_t(to.size());
    to.insert(to.end(), begin, begin + count);
  };
  plan_.steps.reserve(items_.size());
  plan_.sources.reserve(sources_.size());
  plan_.deps.reserve(deps_.size());
  for (const std::uint32_t i : by_stream_) {
    Step& step = plan_.steps.emplace_back(items_[i].step);
    carry(plan_.sources, sources_, step.first_source, step.sources);
    carry(plan_.deps, deps_, step.first_dep, step.deps);
    plan_.reduces |= step.act == Act::reduce || step.act == Act::fold;
    if (step.act == Act::send) plan_.sent_elems += step.range.count;
    if (step.act == Act::copy || step.act == Act::reduce) plan_.received_elems += step.range.count;
  }
}

}  // namespace anello::plan
