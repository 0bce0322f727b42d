// A library under test, as one rank sees it: ours or a peer's. Whoever measures needs no more than this, and uses the
// same calls to bring the ranks' figures together. One thread.
#pragma once
#include <anello/tensor.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "bench/memory.hpp"

namespace anello::bench {

class Library {
 public:
  using Call = std::function<void()>;  // blocks until this rank's part is done

  virtual ~Library() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual nlohmann::json facts() const = 0;  // name, version and what else shaped the figures, for the report

  // An allreduce that can be called again and again; what a program would set up only once happens here. In place if
  // both are the same memory. Every library has sums and maxima of f64; it throws Error{unsupported} for what it has
  // not.
  virtual Call allreduce(ConstTensor input, Tensor output, Op op) = 0;

  // The ranks' figures, brought together exactly.
  virtual void gather(std::span<double> figures, Op op) { allreduce(ConstTensor(figures), Tensor(figures), op)(); }

  // What the tensors lie in. If that is a device's memory the host reaches it by copies, which block.
  virtual Memory allocate(std::size_t bytes) { return pages(bytes); }
  virtual bool on_device() const { return false; }
  virtual void copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {}
};

}  // namespace anello::bench
