#include "ring/group/operation.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/operation_queue.hpp"

namespace anello::group {
namespace {

// Returns a text such as "counts 3, 0, 5", with at most the first 16 counts.
std::string listed(std::string_view what, std::span<const std::uint64_t> counts) {
  constexpr std::size_t kMax = 16;
  std::string all(what);
  for (std::size_t k = 0; k < std::min(counts.size(), kMax); k++) all += text(k ? ", " : " ", counts[k]);
  return all + (counts.size() > kMax ? ", ..." : "");
}

template <class T>
std::span<const T> copied(std::span<const T> from, std::vector<T>& to) {
  to.assign(from.begin(), from.end());
  return to;
}

run::Buffer copied(const run::Buffer& from, std::vector<run::Buffer::Piece>& to) {
  return from.list().empty() ? from : run::Buffer(copied(from.list(), to));
}

}  // namespace

std::string describe(const Operation& pending, const link::GroupInfo& group) {
  const Call& call = *pending.call;
  std::string what = describe(pending.signature);
  if (!call.name.empty()) what += text(" '", call.name, "'");
  if (!call.counts.empty()) what += text(" with ", listed("counts", call.counts));
  if (!call.received.empty()) what += text(" and ", listed("receive counts", call.received));
  if (group.id != 0) what += text(" in ", group.name);
  return what;
}

void AsyncOperation::keep(const Call& asked) {
  call = &call_;
  call_ = asked;
  call_.algorithm = {};  // borrowed memory, which is not needed after planning
  name_ = asked.name;
  call_.name = name_;
  call_.counts = copied(asked.counts, counts_);
  call_.received = copied(asked.received, received_);
  call_.agreed = copied(asked.agreed, agreed_);
  call_.input = copied(asked.input, input_);
  call_.output = copied(asked.output, output_);
  if (asked.agreed.empty()) return;
  // The input of an exchange of counts is the caller's list of counts, so this operation keeps a copy of that list. The
  // result stays in this operation's own memory, because only this operation needs it.
  const auto* const sent = reinterpret_cast<const std::uint64_t*>(asked.input.run(0, 1, kCountShift).data());
  sent_.assign(sent, sent + asked.agreed.size());
  arriving_.resize(sent_.size());
  call_.input = run::Buffer(reinterpret_cast<std::byte*>(sent_.data()), sent_.size());
  call_.output = run::Buffer(reinterpret_cast<std::byte*>(arriving_.data()), arriving_.size());
}

std::shared_ptr<AsyncOperation> AsyncOperationPool::take(OperationQueue& owner) {
  const auto unused = [](const auto& operation) { return operation.use_count() == 1; };
  const auto found = std::find_if(spare_.begin(), spare_.end(), unused);
  if (found == spare_.end()) return std::make_shared<AsyncOperation>(owner.shared_from_this());
  auto operation = std::move(*found);
  *found = std::move(spare_.back());
  spare_.pop_back();
  operation->done.store(false, std::memory_order_relaxed);
  operation->error.reset();
  operation->when_done = nullptr;
  return operation;
}

}  // namespace anello::group
