// Converts a call of the C API to a call of the engine.
#pragma once
#include <anello/gpu.h>

#include "rendezvous/c_api/given.hpp"
#include "ring/base/collective.hpp"
#include "ring/group/arguments.hpp"

namespace anello::c_api {

// The numbers of anello_kind are those of Kind. Only transfers differ: they have one kind for each direction.
static_assert(int(Kind::allreduce) == ANELLO_ALLREDUCE && int(Kind::broadcast) == ANELLO_BROADCAST &&
              int(Kind::allgather) == ANELLO_ALLGATHER && int(Kind::reduce_scatter) == ANELLO_REDUCE_SCATTER &&
              int(Kind::barrier) == ANELLO_BARRIER && int(Kind::reduce) == ANELLO_REDUCE &&
              int(Kind::gather) == ANELLO_GATHER && int(Kind::scatter) == ANELLO_SCATTER &&
              int(Kind::alltoall) == ANELLO_ALLTOALL);

inline group::Call alltoall_of(const anello_call& asked, group::RankAndSize self) {
  const auto counts = [self](const std::uint64_t* list) {
    return std::span(&required(list, "list of counts"), std::size_t(self.size));
  };
  const ConstTensor input = input_of(asked.input);
  const Tensor output = tensor_of(asked.output);
  const Options options = Given(asked.options).plain();
  if (!asked.send_counts && !asked.recv_counts) return group::calls::alltoall(self, input, output, options);
  return group::calls::alltoall(self, input, output, counts(asked.send_counts), counts(asked.recv_counts), options);
}

// Refuses members that a call of this kind does not take. Otherwise the call would succeed, but move less than the
// caller meant. The short forms do not become slower by this check, because the members that they do not set are
// constants.
[[gnu::always_inline]] inline void check_members(const anello_call& asked) {
  const int kind = asked.kind;
  const bool is_list = asked.list || asked.list_size > 0;
  const auto takes_no = [kind](const char* member, bool is_given) {
    if (is_given) refuse(text("kind ", kind, " takes no ", member, ": leave it as ANELLO_CALL_INIT sets it"));
  };
  takes_no("list", is_list && kind != ANELLO_ALLREDUCE && kind != ANELLO_BROADCAST);
  takes_no("input beside a list", is_list && asked.input.count > 0);
  takes_no("output beside a list", is_list && asked.output.count > 0);
  const bool is_empty = kind == ANELLO_BARRIER;
  takes_no("input", asked.input.count > 0 && (is_empty || kind == ANELLO_BROADCAST || kind == ANELLO_RECV));
  takes_no("output", asked.output.count > 0 && (is_empty || kind == ANELLO_SEND));
  takes_no("counts of each rank", (asked.send_counts || asked.recv_counts) && kind != ANELLO_ALLTOALL);
  takes_no("array, except in anello_named_submit", asked.inputs || asked.outputs || asked.arrays_size > 0);
}

// anello_gpu_carry_out and anello_named_submit call these functions, with a complete record.
anello_status carry_out(anello_gpu_group* gpus, const anello_call& asked, CUstream_st* stream);
anello_status submit(anello_agenda* agenda, const char* name, const anello_call& asked,
                     const anello_named_options* options, anello_named** operation);

// Returns the checked call. The result borrows everything that `asked` borrows. If `asked` has a list, the result also
// borrows `pieces`. Throws Error{invalid_argument}.
[[gnu::always_inline]] inline group::Call call_of(const anello_call& asked, group::RankAndSize self,
                                                  std::vector<run::Buffer::Piece>& pieces) {
  namespace calls = group::calls;
  check_members(asked);
  const Given options(asked.options);
  const ConstTensor input = input_of(asked.input);
  const Tensor output = tensor_of(asked.output);
  const bool is_list = asked.list || asked.list_size > 0;
  const int root = asked.root;
  const Op op = one_of<Op>(asked.op);
  switch (asked.kind) {
    case ANELLO_ALLREDUCE:
      if (!is_list) return calls::allreduce(input, output, op, options.reduction());
      return calls::allreduce(list_of(asked.list, asked.list_size), pieces, op, options.reduction());
    case ANELLO_REDUCE:
      return calls::reduce(self, input, output, root, op, options.reduction());
    case ANELLO_BROADCAST:
      if (!is_list) return calls::broadcast(self, std::span(&output, 1), pieces, root, options.plain());
      return calls::broadcast(self, list_of(asked.list, asked.list_size), pieces, root, options.plain());
    case ANELLO_ALLGATHER:
      return calls::allgather(self, input, output, options.parts());
    case ANELLO_GATHER:
      return calls::gather(self, input, output, root, options.parts());
    case ANELLO_SCATTER:
      return calls::scatter(self, input, output, root, options.parts());
    case ANELLO_REDUCE_SCATTER:
      return calls::reduce_scatter(self, input, output, op, options.reduction());
    case ANELLO_ALLTOALL:
      return alltoall_of(asked, self);
    case ANELLO_BARRIER:
      return calls::barrier(options.plain());
    case ANELLO_SEND:
      return calls::transfer(input, Tensor(nullptr, 0, input.dtype), options.plain());
    case ANELLO_RECV:
      return calls::transfer(ConstTensor(nullptr, 0, output.dtype), output, options.plain());
    case ANELLO_EXCHANGE:
      refuse("kind 12 is for anello_gpu_carry_out: start a send and a recv instead");
  }
  refuse(text("kind must be one of anello_kind, not ", asked.kind));
}

}  // namespace anello::c_api
