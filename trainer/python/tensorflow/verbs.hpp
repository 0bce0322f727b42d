// The verbs: the operations between ranks that a node of a graph may stand for.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "trainer/python/tensorflow/collective.hpp"

namespace anello::tensorflow {

// An operation's name for the library's C API.
class Name {
 public:
  Name() = default;
  explicit Name(std::string text) : text_(std::move(text)) {}
  operator const char*() const { return text_ ? text_->c_str() : nullptr; }

 private:
  std::optional<std::string> text_;
};

class Named : public Collective {
 public:
  explicit Named(TF_OpKernelConstruction* node);

  void take(Call& call, const ProcessSet& set) const override;  // adds the inputs to the call
  void refuse(const Call& call, const ProcessSet& set, const char* why) const override;
  void deliver(Call&) const override {}

 protected:
  // Returns the name of a call; an empty name if operations are numbered instead. In a while loop, several calls of one
  // node may run at the same time; they have different names.
  Name name(const Call& call) const;
  virtual anello_verb verb() const = 0;

 private:
  std::string name_;
};

class Reduction : public Named {
 public:
  explicit Reduction(TF_OpKernelConstruction* node);
  void take(Call& call, const ProcessSet& set) const override;

 protected:
  anello_op op() const { return op_; }
  void set_factors(Call& call) const;

 private:
  anello_op op_;
  double prescale_, postscale_;
};

class Allreduce : public Reduction {
 public:
  explicit Allreduce(TF_OpKernelConstruction* node);
  void take(Call& call, const ProcessSet& set) const override;
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_ALLREDUCE; }
  int wire_;
};

class Reducescatter : public Reduction {
 public:
  using Reduction::Reduction;
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;
  void deliver(Call& call) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_REDUCE_SCATTER; }
};

class Allgather : public Named {
 public:
  using Named::Named;
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;
  void deliver(Call& call) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_ALLGATHER; }
};

class Broadcast : public Named {
 public:
  explicit Broadcast(TF_OpKernelConstruction* node);
  void take(Call& call, const ProcessSet& set) const override;
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_BROADCAST; }
  int root_;  // a rank of the world
};

class Alltoall : public Named {
 public:
  using Named::Named;
  void take(Call& call, const ProcessSet& set) const override;
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;
  void deliver(Call& call) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_ALLTOALL; }
};

class Barrier : public Named {
 public:
  using Named::Named;
  void take(Call&, const ProcessSet&) const override {}
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;

 private:
  anello_verb verb() const override { return ANELLO_NAMED_BARRIER; }
};

class Join : public Collective {
 public:
  explicit Join(TF_OpKernelConstruction* node);
  void take(Call&, const ProcessSet&) const override {}
  anello_status submit(Call& call, const ProcessSet& set, anello_named** operation) const override;
  void refuse(const Call&, const ProcessSet&, const char*) const override {}
  void deliver(Call& call) const override;
};

}  // namespace anello::tensorflow
