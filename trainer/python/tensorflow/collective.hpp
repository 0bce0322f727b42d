// A node of a graph that stands for an operation between ranks.
#pragma once
#include <anello/anello.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/python/tensorflow/done_callback.hpp"
#include "trainer/python/tensorflow/process_sets.hpp"
#include "trainer/python/tensorflow/tf_types.hpp"

namespace anello::tensorflow {

class Collective;

// One run of a node, from its submission until TensorFlow has its outputs.
struct Call {
  const Collective& node;
  TF_OpKernelContext* context;
  DoneCallback done;
  std::vector<Tensor> tensors = {};  // the operation uses their memory
  Arrays inputs = {}, outputs = {};
  std::vector<uint64_t> splits = {};
  int ranks = 0;  // size of the process set
  anello_named_options options = ANELLO_NAMED_OPTIONS_INIT;
  std::shared_ptr<anello_named> operation = {};

  // Takes input `index` from TensorFlow. The operation only reads the input's memory.
  void add_input(int index);
  // Takes the input, and gives TensorFlow an output of the same shape. Both are the same memory if nothing else uses
  // the input.
  void add_input_and_output(int index);
  // Gives TensorFlow an output in the operation's own memory, without a copy.
  void set_made_output(int index);
};

// Several threads may run calls of one node at the same time.
class Collective {
 public:
  // `waits`: true if the thread that runs the node waits for the operation's end; this may be a thread of Python.
  explicit Collective(int process_set, bool waits = false) : process_set_(process_set), waits_(waits) {}
  virtual ~Collective() = default;

  // Submits the operation. Returns at once, so that TensorFlow's threads do not wait for other ranks; a node with
  // `waits` returns at the operation's end. Runs `done` when the outputs are there or the operation has failed.
  void run(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) const;

  // Takes the inputs that submit() needs from TensorFlow. Throws Failure.
  virtual void take(Call& call, const ProcessSet& set) const = 0;
  virtual anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const = 0;
  // Called if take() has failed: makes the operation fail on the other ranks too, because they would wait for this
  // rank.
  virtual void refuse(const Call& call, const ProcessSet& set, const char* why) const = 0;
  // Called when the operation is complete: gives TensorFlow the remaining outputs. Throws Failure.
  virtual void deliver(Call& call) const = 0;

 protected:
  bool waits() const { return waits_; }

 private:
  void start(Call& call) const;

  int process_set_;
  bool waits_;
};

}  // namespace anello::tensorflow

// Called by Python after a node with `waits` has failed on this thread. If the library has failed, returns its status;
// anello_last_error() describes the error. Returns ANELLO_OK if no node has failed since the last call. Returns -1 if a
// node has failed for another reason; then other ranks that wait for this rank have received this reason too.
ANELLO_API_BEGIN
extern "C" int anello_tensorflow_take_failure(void);
// Called by Python before it calls an op, because a signal may have prevented anello_tensorflow_take_failure() after
// the previous op. The caller holds Python's global lock.
extern "C" void anello_tensorflow_forget_failure(void);
ANELLO_API_END
