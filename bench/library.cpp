#include "bench/library.hpp"

#include <anello/error.hpp>
#include <vector>

#include "ring/base/text.hpp"

namespace anello::bench {

Library::Call Library::collective(Kind kind, ConstTensor input, Tensor output, Op op) {
  if (kind == Kind::allreduce) return allreduce(input, output, op);
  throw Error(ErrorCode::unsupported, text("only allreduce of this library is measured, not ", name(kind)));
}

std::map<std::string, Calls> calls_by_name() {
  return {{"blocking", Calls::blocking}, {"waiting", Calls::waiting}, {"looking", Calls::looking}};
}

Library::Call Library::step(std::span<const Tensor> tensors, Calls calls) {
  if (calls != Calls::blocking) throw Error(ErrorCode::unsupported, "only blocking calls of this library are measured");
  std::vector<Call> all;
  for (const Tensor& each : tensors) all.push_back(allreduce(each, each, Op::sum));
  return [all] {
    for (const Call& each : all) each();
  };
}

}  // namespace anello::bench
