#include "ring/group/agreement.hpp"

#include <cstring>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/operation_load.hpp"
#include "ring/run/checksum.hpp"

namespace anello::group {

const Signature& Agreement::signature() {
  if (results_.checksum == 0) return operation_->signature;
  signature_ = operation_->signature;
  signature_.results = results_.checksum;
  return signature_;
}

void Agreement::sum_up_results() {
  const Call& operation = *operation_->call;
  if (!has_elements(operation) || !facts_of(operation.kind).equal_results) return;
  const run::Nans nans = operation.kind == Kind::allreduce ? run::Nans::alike : run::Nans::as_they_are;
  results_ = {operation_->signature.sequence,
              checksum(operation.dtype, operation.output, operation_->plan->output_elems, nans)};
}

// Compares the numbers that the peers sent with the numbers that this call expects. The error names no guilty rank,
// because this rank does not have the comparisons of the other ranks.
void Agreement::compare_numbers() {
  const Call& operation = *operation_->call;
  std::string why;
  std::vector<int> contradicted;
  for (std::size_t peer = 0; peer < operation.agreed.size(); peer++) {
    std::uint64_t sent = 0;
    std::memcpy(&sent, operation.output.run(peer, 1, kCountShift).data(), sizeof sent);
    const std::uint64_t expected = operation.agreed[peer];
    if (sent == expected) continue;
    contradicted.push_back(world_rank(int(peer)));
    if (contradicted.size() == 1)
      why = text("the splits of an alltoall differ: rank ", contradicted[0], " sends ", sent, " elements to rank ",
                 world_rank(rank_), ", which expects ", expected);
  }
  if (contradicted.empty()) return;
  const NamedSignature mine(operation_->signature, std::string(operation.name));
  differing_ = {mine, std::move(contradicted), mine};
  throw Error(ErrorCode::mismatch, why);
}

// Compares the peer's call with this rank's call that has the same sequence number. If that number is lower than the
// current one, the ranks made different calls at that number or even earlier, so these two calls explain the error
// better than the current call. If this rank has not begun an operation with that number yet, or has no record of it
// any more, compares the peer's call with the current call.
Error Agreement::explain(int peer, const Signature& encoded) {
  Signature theirs = encoded;
  theirs.group = group_.id;
  theirs.results = 0;
  if (theirs == operation_->signature) return divergence(peer, encoded.results);
  const int me = world_rank(rank_), other = world_rank(peer);
  const std::string where = theirs.group == 0 ? "" : text("in ", group_.name, " ");
  const std::optional<NamedSignature> then = recorder_.begun(theirs.sequence);
  if (then && *then == theirs)
    return {ErrorCode::mismatch,
            text(where, "rank ", other, " sent more for ", describe(theirs), " than rank ", me, " expected"), peer};
  const NamedSignature mine = then ? *then : NamedSignature(operation_->signature, std::string(operation_->call->name));
  differing_ = {mine, {other}, theirs};
  return {ErrorCode::mismatch,
          where + (me < other ? difference({me}, mine, {other}, theirs) : difference({other}, theirs, {me}, mine))};
}

// Names both ranks, because it cannot be determined which of the two results is right.
Error Agreement::divergence(int peer, std::uint32_t theirs) const {
  const int me = world_rank(rank_), other = world_rank(peer);
  const auto which = [&](int rank, std::uint32_t checksum) { return text("rank ", rank, " has checksum ", checksum); };
  const std::optional<NamedSignature> then = recorder_.begun(results_.sequence);
  const std::string what = then ? describe(*then) : text("operation #", results_.sequence);
  const std::string where = group_.id == 0 ? "" : text(" in ", group_.name);
  if (results_.checksum == 0 || theirs == 0)
    return {ErrorCode::protocol,
            text("the checksum of earlier results", where, " that rank ", other, " sent is damaged"), peer};
  const std::string mine = which(me, results_.checksum), others = which(other, theirs);
  return {
      ErrorCode::diverged,
      text("the results of ", what, where, " differ: ", me < other ? mine : others, ", ", me < other ? others : mine,
           "; memory or a connection is damaged, or a program wrote to a result that was not complete")};
}

}  // namespace anello::group
