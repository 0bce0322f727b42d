// A node of a graph that is an operation between ranks.
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
  std::vector<Tensor> tensors = {};  // whose memory the operation uses
  Arrays inputs = {}, outputs = {};
  std::vector<uint64_t> splits = {};
  int ranks = 0;  // of the process set
  anello_named_options options = ANELLO_NAMED_OPTIONS_INIT;
  std::shared_ptr<anello_named> operation = {};

  // Takes tensor number `index` from TensorFlow, which is only read.
  void add_input(int index);
  // Takes it, and gives TensorFlow an output of its shape: the same memory, if nothing else uses it.
  void add_input_and_output(int index);
  // Gives TensorFlow what the operation has made, where it lies.
  void set_made_output(int index);
};

// Several calls of one node may be under way, from several threads.
class Collective {
 public:
  // `waits`: the thread that runs the node waits for its end; it may be Python's.
  explicit Collective(int process_set, bool waits = false) : process_set_(process_set), waits_(waits) {}
  virtual ~Collective() = default;

  // Submits the operation, and returns, unless the node is one that waits: no thread of TensorFlow's waits for other
  // ranks. `done` runs when the outputs are there or the operation has failed.
  void run(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) const;

  // Takes from TensorFlow what submit() needs. Throws Failure.
  virtual void take(Call& call, const ProcessSet& set) const = 0;
  virtual anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const = 0;
  // take() has failed: the operation must fail on the other ranks too, which would wait for this one.
  virtual void refuse(const Call& call, const ProcessSet& set, const char* why) const = 0;
  // The operation is complete: gives TensorFlow the outputs that are not there yet. Throws Failure.
  virtual void deliver(Call& call) const = 0;

 protected:
  bool waits() const { return waits_; }

 private:
  void start(Call& call) const;

  int process_set_;
  bool waits_;
};

}  // namespace anello::tensorflow

// Called by Python after a node that waits has failed on this thread. The status of the library, whose error
// anello_last_error() describes; ANELLO_OK: no node has failed since the last call; -1: one has failed for another
// reason, which other ranks that wait for this one have got too.
ANELLO_API_BEGIN
extern "C" int anello_tensorflow_take_failure(void);
ANELLO_API_END
