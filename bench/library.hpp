// A library under test, used by one rank: Anello or another library. All measurements use only these functions. The
// same functions combine the ranks' figures. One thread.
#pragma once
#include <anello/tensor.hpp>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bench/memory.hpp"
#include "ring/base/signature.hpp"

namespace anello::bench {

// How the allreduces of a step are called. blocking: one after another. waiting: the thread starts all of them, and
// then waits for each. looking: the thread starts all of them, and then checks every 100 us whether they are done.
enum class Calls { blocking, waiting, looking };
std::map<std::string, Calls> calls_by_name();

class Library {
 public:
  using Call = std::function<void()>;  // blocks until this rank's part is done

  virtual ~Library() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual nlohmann::ordered_json facts()
      const = 0;  // name, version and the settings that influence the figures, for the report

  // Returns an allreduce that can be called repeatedly. Preparations that a program makes only once are made here, not
  // in the call. The call is in place if input and output are the same memory. Every library offers sums and maxima of
  // f64. Throws Error{unsupported} for a call that the library does not offer.
  virtual Call allreduce(ConstTensor input, Tensor output, Op op) = 0;

  // Returns a call of any operation, with rank 0 as the root. The tensors are those that Tensors (collective.hpp)
  // gives. Only operations that reduce use `op`.
  virtual Call collective(Kind kind, ConstTensor input, Tensor output, Op op);

  // Returns a step of allreduces in place. The step can be called repeatedly. Throws Error{unsupported}.
  virtual Call step(std::span<const Tensor> tensors, Calls calls);

  // Combines the ranks' figures exactly, without rounding.
  virtual void gather(std::span<double> figures, Op op) { allreduce(ConstTensor(figures), Tensor(figures), op)(); }

  // Allocates memory for tensors. If it is memory of a device, the host must access it through copy(), which blocks.
  virtual Memory allocate(std::size_t bytes) { return pages(bytes); }
  virtual bool on_device() const { return false; }
  virtual void copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {}
};

}  // namespace anello::bench
