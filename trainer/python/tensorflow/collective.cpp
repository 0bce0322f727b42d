#include "trainer/python/tensorflow/collective.hpp"

#include <functional>
#include <numeric>
#include <utility>

#include "trainer/python/tensorflow/interruption.hpp"

namespace anello::tensorflow {
namespace {

constexpr int kOtherReason = -1;
constexpr uint64_t kPatienceMs = 100;  // Python handles Ctrl-C between two waits
thread_local int failed_with = ANELLO_OK;

// In this function TensorFlow may free the node, and start other nodes that wait for it. So nothing may use `call`
// after this function.
void end(std::unique_ptr<Call> call, const std::optional<Failure>& failure) {
  if (failure) {
    if (call->options.waits) failed_with = failure->status() == ANELLO_OK ? kOtherReason : failure->status();
    tf.OpKernelContext_Failure(call->context, Status(*failure));
  }
  DoneCallback done = std::move(call->done);
  call.reset();
  done.run();
}

void finish(void* context, anello_status status, const char* message) {
  std::unique_ptr<Call> call(static_cast<Call*>(context));
  const auto failure = failure_of([&] {
    if (status != ANELLO_OK) throw Failure(status, message);
    call->node.deliver(*call);
  });
  end(std::move(call), failure);
}

Failure interruption() {
  return Failure(Code::cancelled, "interrupted by a signal");
}

// Returns at once; the operation goes on, and frees the call when it is done, because it uses the call's memory.
// Returns false if there is no memory for this.
bool leave(std::unique_ptr<Call>& call) {
  TF_OpKernelContext* const context = call->context;
  DoneCallback done = std::move(call->done);
  const auto operation = call->operation;
  const auto free_call = [](void* kept, anello_status, const char*) { delete static_cast<Call*>(kept); };
  Call* const kept = call.release();  // it may be freed before anello_named_when_done() returns
  if (anello_named_when_done(operation.get(), free_call, kept) != ANELLO_OK) {
    call.reset(kept);
    call->done = std::move(done);
    return false;
  }
  tf.OpKernelContext_Failure(context, Status(interruption()));
  done.run();
  return true;
}

void finish_here(std::unique_ptr<Call> call) {
  anello_named* const operation = call->operation.get();
  anello_status status = anello_named_wait(operation, kPatienceMs);
  bool is_interrupted = false;
  while (status == ANELLO_TIMED_OUT && !anello_named_done(operation)) {
    is_interrupted = is_interrupted || interrupted();
    if (is_interrupted && leave(call)) return;
    status = anello_named_wait(operation, kPatienceMs);
  }
  if (is_interrupted) return end(std::move(call), interruption());
  // The operation may have ended after the wait, or its own status may be ANELLO_TIMED_OUT.
  if (status == ANELLO_TIMED_OUT) status = anello_named_wait(operation, 0);
  finish(call.release(), status, status == ANELLO_OK ? nullptr : anello_last_error());
}

void finish_when_done(std::unique_ptr<Call> call) {
  const auto operation = call->operation;  // finish() may free the call before anello_named_when_done() returns
  Call* const kept = call.release();
  const anello_status status = anello_named_when_done(operation.get(), finish, kept);
  if (status != ANELLO_OK) finish(kept, status, anello_last_error());
}

// Called by TensorFlow when it frees an output whose memory belongs to the operation.
void let_go(void*, std::size_t, void* operation) {
  delete static_cast<std::shared_ptr<anello_named>*>(operation);
}

}  // namespace

void Call::add_input(int index) {
  tensors.push_back(input_of(context, index));
  inputs.add(tensors.back().get());
}

void Call::add_input_and_output(int index) {
  // Releases the input first: TensorFlow cannot reuse its memory for the output while there is another reference to it.
  const std::vector<int64_t> dims = dims_of(input_of(context, index).get());
  const Status status;
  int forwarded = -1;
  Tensor output(
      tf.ForwardInputOrAllocateOutput(context, &index, 1, index, dims.data(), int(dims.size()), &forwarded, status));
  status.require_ok();
  outputs.add(output.get());
  if (forwarded == index)
    inputs.add(output.get());
  else
    add_input(index);
  tensors.push_back(std::move(output));
}

void Call::set_made_output(int index) {
  const int type = tf.TensorType(tensors[std::size_t(index)].get());
  anello_array array;
  require(anello_named_output(operation.get(), std::size_t(index), &array));
  const std::vector<int64_t> dims(array.shape, array.shape + array.dimensions);
  const auto count = std::accumulate(array.shape, array.shape + array.dimensions, uint64_t{1}, std::multiplies<>());
  if (count == 0) {
    allocate_output(context, index, type, dims);
    return;
  }
  const Tensor made(tf.NewTensor(type, dims.data(), int(dims.size()), array.data, count * tf.DataTypeSize(type), let_go,
                                 new std::shared_ptr<anello_named>(operation)));
  const Status status;
  tf.SetOutput(context, index, made.get(), status);
  status.require_ok();
}

void Collective::start(Call& call) const {
  const auto set = own_process_set(process_set_);
  call.ranks = set->size();
  if (const auto failure = failure_of([&] { take(call, *set); })) {
    refuse(call, *set, failure->what());
    throw Failure(*failure);
  }
  anello_named* operation = nullptr;
  require(submit(call, *set, &operation));
  call.operation = std::shared_ptr<anello_named>(operation, anello_named_free);
}

void Collective::run(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) const {
  auto call = std::unique_ptr<Call>(new Call{*this, context, DoneCallback(done)});
  call->options.waits = waits_ || !call->done.is_kept();
  const auto failure = failure_of([&] { start(*call); });
  if (failure)
    end(std::move(call), failure);
  else if (call->options.waits)
    finish_here(std::move(call));
  else
    finish_when_done(std::move(call));
}

}  // namespace anello::tensorflow

int anello_tensorflow_take_failure() {
  return std::exchange(anello::tensorflow::failed_with, ANELLO_OK);
}

void anello_tensorflow_forget_failure() {
  anello::tensorflow::failed_with = ANELLO_OK;
  anello::tensorflow::forget_interruption();
}
