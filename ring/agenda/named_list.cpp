// How several tensors are reduced as one list: the tensors of one named operation, or of several.
#include <cstring>
#include <map>

#include "ring/agenda/elements.hpp"
#include "ring/agenda/named_operation.hpp"
#include "ring/base/signature.hpp"
#include "ring/base/text.hpp"
#include "ring/group/arguments.hpp"

namespace anello::agenda {
namespace {

using Handle = std::shared_ptr<NamedOperation>;

// A tensor of one of the operations.
struct ListedTensor {
  DType dtype;
  Tensor input, output;
  std::size_t owner;  // index of the operation
};

// The memory of all tensors that have been added to a list.
class Ranges {
 public:
  // If the tensor shares memory with an earlier tensor, returns false and adds nothing.
  bool add(const Tensor& tensor) {
    const auto* const begin = static_cast<const std::byte*>(tensor.data);
    const auto* const end = begin + tensor.bytes();
    const auto next = ends_.upper_bound(begin);  // the first range that ends after `begin`
    if (begin == end) return true;
    if (next != ends_.end() && next->second < end) return false;
    ends_.emplace_hint(next, end, begin);
    return true;
  }

 private:
  std::map<const std::byte*, const std::byte*> ends_;  // the beginning of each range, by its end
};

// The hash of all names. The ranks compare this hash, so they never combine elements of different operations.
std::uint64_t token_of(std::span<const Handle> list) {
  std::uint64_t all = fingerprint(list[0]->key());
  for (const Handle& each : list.subspan(1)) all = fingerprint(all, fingerprint(each->key()));
  return all;
}

std::string name_of(std::span<const Handle> list) {
  return list.size() == 1 ? list[0]->key() : text(list[0]->key(), " and ", list.size() - 1, " more");
}

}  // namespace

bool suits_list(const Description& description, const group::OperationQueue& queue) {
  constexpr std::uint64_t kMaxBytes = 16 << 10;
  if (!may_be_in_list(description) || bytes_of(description) > kMaxBytes) return false;
  for (const auto& list : by_dtype(description.arrays)) {
    group::Call call{.kind = Kind::allreduce, .op = description.op, .dtype = description.arrays[list[0]].dtype};
    if (!is_float(call.dtype)) continue;
    for (const std::size_t k : list) call.count += count(description.arrays[k].shape);
    if (description.wire != DType{}) call.wire = description.wire;
    if (!queue.adds_in_rank_order(call)) return false;
  }
  return true;
}

// A program may give a tensor to only one operation at a time. If it gives the tensor to two operations, the results of
// these two are undefined. But the list cannot contain the tensor twice, and the other operations of the list must have
// right results. So this function returns other memory in place of the tensor.
Tensor NamedOperation::moved_aside(const Tensor& output) {
  const Tensor copy(make_memory(output.count, output.dtype), output.count, output.dtype);
  aside_.emplace_back(copy, output.data);
  return copy;
}

// Like add(), for several operations with the same work.
void NamedOperation::add(group::OperationQueue& queue, const group::Call& call,
                         const std::vector<std::shared_ptr<NamedOperation>>& owners) {
  for (const auto& each : owners) each->left_++;
  try {
    const auto note_end = [owners](const Error* error) {
      for (const auto& each : owners) each->note_end(error);
    };
    const Work work = queue.submit_quietly(call, note_end);
    for (const auto& each : owners) each->works_.push_back(work);
  } catch (...) {
    for (const auto& each : owners) each->left_--;
    throw;
  }
}

// Elements of floats are added in rank order, so that their sums do not depend on their places in the list.
void NamedOperation::start_list(std::span<const Handle> list, group::OperationQueue& queue) {
  const bool several = list.size() > 1;
  Ranges ranges;
  std::vector<ListedTensor> all;
  for (std::size_t owner = 0; owner < list.size(); owner++) {
    const NamedCall& its = list[owner]->request_;
    list[owner]->in_list_ = several;
    for (std::size_t k = 0; k < its.inputs.size(); k++) {
      const Tensor input = its.inputs[k].tensor();
      Tensor output = its.outputs.empty() ? input : its.outputs[k].tensor();
      if (several && !ranges.add(output)) output = list[owner]->moved_aside(output);
      all.push_back({input.dtype, input, output, owner});
    }
  }
  const std::string name = name_of(list);
  const std::uint64_t token = token_of(list);
  for (const auto& of_type : by_dtype(all)) {
    const ListedTensor& first = all[of_type[0]];
    const bool scales = list[0]->scales_integers(first.dtype);
    std::vector<Tensor> tensors;
    std::vector<Handle> owners;
    for (const std::size_t k : of_type) {
      const ListedTensor& each = all[k];
      if (scales)
        scale_integers(each.input, each.output, list[0]->request_.prescale);
      else if (of_type.size() > 1 && each.input.data != each.output.data && each.input.count > 0)
        std::memcpy(each.output.data, each.input.data, each.input.bytes());
      tensors.push_back(each.output);
      if (owners.empty() || owners.back() != list[each.owner]) owners.push_back(list[each.owner]);
    }
    ReduceOptions options = list[0]->options(first.dtype);
    options.name = name;
    options.consistency_token = token;
    const Op op = list[0]->request_.op;
    // The signature of a list of one tensor differs from that of a single tensor. So whether this call uses a list
    // depends only on the number of tensors, which is equal on all ranks.
    std::vector<run::Buffer::Piece> pieces;
    group::Call call = tensors.size() == 1
                           ? group::calls::allreduce(scales ? first.output : first.input, first.output, op, options)
                           : group::calls::allreduce(tensors, pieces, op, options);
    call.rank_order = several && is_float(first.dtype);
    add(queue, call, owners);
  }
}

}  // namespace anello::agenda
