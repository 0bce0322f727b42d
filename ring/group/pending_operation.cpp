#include "ring/group/pending_operation.hpp"

namespace anello {
namespace {

template <class T>
std::span<const T> copied(std::span<const T> from, std::vector<T>& to) {
  to.assign(from.begin(), from.end());
  return to;
}

Buffer copied(const Buffer& from, std::vector<Buffer::Piece>& to) {
  return from.list().empty() ? from : Buffer(copied(from.list(), to));
}

}  // namespace

void AsyncOperation::keep(const Operation& asked) {
  operation = &operation_;
  operation_ = asked;
  operation_.algorithm = {};  // was of interest to the planner only
  name_ = asked.name;
  operation_.name = name_;
  operation_.counts = copied(asked.counts, counts_);
  operation_.received = copied(asked.received, received_);
  operation_.agreed = copied(asked.agreed, agreed_);
  operation_.input = copied(asked.input, input_);
  operation_.output = copied(asked.output, output_);
  if (asked.agreed.empty()) return;
  // An exchange of counts: nobody else has a use for its result, and what it sends is a list of the caller's.
  const auto* const sent = reinterpret_cast<const std::uint64_t*>(asked.input.run(0, 1, kCountShift).data());
  sent_.assign(sent, sent + asked.agreed.size());
  arriving_.resize(sent_.size());
  operation_.input = Buffer(reinterpret_cast<std::byte*>(sent_.data()), sent_.size());
  operation_.output = Buffer(reinterpret_cast<std::byte*>(arriving_.data()), arriving_.size());
}

}  // namespace anello
