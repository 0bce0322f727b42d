#include "trainer/python/tensorflow/verbs.hpp"

#include <array>
#include <cstring>
#include <sstream>

#include "trainer/python/tensorflow/attributes.hpp"

namespace anello::tensorflow {
namespace {

// Returns the number of inputs without the last one, `now`. In a graph, `now` only keeps TensorFlow from running the
// node too early. If the node has `waits`, `now` contains values that may differ from call to call: the words of the
// factors before and after a reduction, and the bytes of the operation's name. (If they were attributes, TensorFlow
// would keep another kernel for each value.)
int tensors_of(const Call& call) {
  return tf.NumInputs(call.context) - 1;
}

constexpr std::size_t kWordsOfFactors = 2 * sizeof(double) / sizeof(int32_t);

std::vector<int32_t> words_in_now(const Call& call) {
  const Tensor now = input_of(call.context, tensors_of(call));
  const auto* words = static_cast<const int32_t*>(tf.TensorData(now.get()));
  const std::size_t count = tf.TensorByteSize(now.get()) / sizeof *words;
  if (count < kWordsOfFactors) throw Failure(Code::invalid_argument, "`now` of a node that waits has no factors");
  return {words, words + count};
}

Name name_in_now(const Call& call) {
  const std::vector<int32_t> words = words_in_now(call);
  const auto name = words.begin() + kWordsOfFactors;
  return name == words.end() ? Name() : Name(std::string(name, words.end()));
}

std::vector<uint64_t> rows_of(const Call& call, int index) {
  const uint64_t* rows = nullptr;
  require(anello_named_rows(call.operation.get(), std::size_t(index), &rows));
  return {rows, rows + call.ranks};
}

}  // namespace

Named::Named(TF_OpKernelConstruction* node)
    : Collective(int_attribute(node, "process_set"), bool_attribute(node, "waits")), name_(name_of(node)) {}

void Named::take(Call& call, const ProcessSet&) const {
  for (int k = 0; k < tensors_of(call); k++) call.add_input(k);
}

void Named::refuse(const Call& call, const ProcessSet& set, const char* why) const {
  anello_named_refuse(set.agenda, verb(), name(call), why);
}

Name Named::name(const Call& call) const {
  if (waits()) return name_in_now(call);
  const uint64_t loop = tf.GetFrameId(call.context);
  const int64_t iteration = tf.GetIterId(call.context);
  if (loop == 0 && iteration == 0) return Name(name_);
  std::ostringstream name;
  name << name_ << " [iteration " << iteration << " of loop " << std::hex << loop << "]";
  return Name(name.str());
}

Reduction::Reduction(TF_OpKernelConstruction* node)
    : Named(node),
      op_(reduction_of(node)),
      prescale_(factor_of(node, "prescale")),
      postscale_(factor_of(node, "postscale")) {}

void Reduction::set_factors(Call& call) const {
  call.options.prescale = prescale_;
  call.options.postscale = postscale_;
  if (!waits()) return;
  const std::vector<int32_t> words = words_in_now(call);
  std::memcpy(&call.options.prescale, words.data(), sizeof(double));
  std::memcpy(&call.options.postscale, words.data() + kWordsOfFactors / 2, sizeof(double));
}

void Reduction::take(Call& call, const ProcessSet& set) const {
  set_factors(call);
  Named::take(call, set);
}

Allreduce::Allreduce(TF_OpKernelConstruction* node) : Reduction(node), wire_(wire_of(node)) {}

void Allreduce::take(Call& call, const ProcessSet&) const {
  set_factors(call);
  call.options.wire = wire_;
  for (int k = 0; k < tensors_of(call); k++) call.add_input_and_output(k);
}

anello_status Allreduce::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_allreduce(set.agenda, name(call), call.inputs.data(), call.outputs.data(), call.inputs.size(),
                                op(), &call.options, operation);
}

anello_status Reducescatter::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_reduce_scatter(set.agenda, name(call), call.inputs.data(), call.inputs.size(), op(),
                                     &call.options, operation);
}

void Reducescatter::deliver(Call& call) const {
  for (int k = 0; k < int(call.inputs.size()); k++) call.set_made_output(k);
}

anello_status Allgather::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_allgather(set.agenda, name(call), call.inputs.data(), call.inputs.size(), &call.options,
                                operation);
}

void Allgather::deliver(Call& call) const {
  const int count = int(call.inputs.size());
  std::vector<int64_t> all_rows;
  for (int k = 0; k < count; k++) {
    call.set_made_output(k);
    for (const uint64_t rows : rows_of(call, k)) all_rows.push_back(int64_t(rows));
  }
  set_output(call.context, count, std::array<int64_t, 2>{count, call.ranks}, all_rows);
}

Broadcast::Broadcast(TF_OpKernelConstruction* node) : Named(node), root_(int_attribute(node, "root")) {}

void Broadcast::take(Call& call, const ProcessSet& set) const {
  if (set.rank_of(root_) < 0)
    throw Failure(Code::invalid_argument, "the root, rank " + std::to_string(root_) + ", is not one of the " +
                                              std::to_string(set.size()) + " ranks of the process set");
  for (int k = 0; k < tensors_of(call); k++) {
    call.add_input_and_output(k);
    const anello_array &input = call.inputs.data()[k], &output = call.outputs.data()[k];
    if (set.rank_of(root_) == set.rank && input.data != output.data)
      std::memcpy(output.data, input.data, tf.TensorByteSize(call.tensors.back().get()));
  }
}

anello_status Broadcast::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_broadcast(set.agenda, name(call), call.outputs.data(), call.outputs.size(), set.rank_of(root_),
                                &call.options, operation);
}

void Alltoall::take(Call& call, const ProcessSet& set) const {
  call.add_input(0);
  const Tensor splits = input_of(call.context, 1);
  const std::size_t count = tf.TensorByteSize(splits.get()) / sizeof(int32_t);
  if (count != 0 && count != std::size_t(set.size()))
    throw Failure(Code::invalid_argument,
                  "there are " + std::to_string(count) + " splits for " + std::to_string(set.size()) + " ranks");
  const auto* values = static_cast<const int32_t*>(tf.TensorData(splits.get()));
  // A negative count becomes a number larger than any count of rows, so the library refuses it on all ranks.
  for (std::size_t rank = 0; rank < count; rank++) call.splits.push_back(uint64_t(values[rank]));
}

anello_status Alltoall::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_alltoall(set.agenda, name(call), call.inputs.data(),
                               call.splits.empty() ? nullptr : call.splits.data(), &call.options, operation);
}

void Alltoall::deliver(Call& call) const {
  call.set_made_output(0);
  const std::vector<uint64_t> rows = rows_of(call, 0);
  set_output(call.context, 1, std::array<int64_t, 1>{call.ranks}, std::vector<int32_t>(rows.begin(), rows.end()));
}

anello_status Barrier::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_barrier(set.agenda, name(call), &call.options, operation);
}

Join::Join(TF_OpKernelConstruction* node) : Collective(int_attribute(node, "process_set")) {}

anello_status Join::submit(Call& call, const ProcessSet& set, anello_named** operation) const {
  return anello_named_join(set.agenda, &call.options, operation);
}

void Join::deliver(Call& call) const {
  int last = -1;
  require(anello_named_last(call.operation.get(), &last));
  set_output(call.context, 0, {}, std::vector<int32_t>{last});
}

}  // namespace anello::tensorflow
