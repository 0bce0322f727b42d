// Named operations on tensors in GPU memory: allreduces and broadcasts. A thread gives them to a GpuGroup in the order
// on which the ranks have agreed. Each operation waits for the work that was on the program's stream when the operation
// was submitted. The GpuGroup is made when the first operation starts, so programs may choose their GPU until then.
#pragma once
#include <anello/gpu.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "gpu/device.hpp"
#include "ring/agenda/device_operation.hpp"

namespace anello::gpu {

class NamedCalls final : public agenda::DeviceCarrier {
 public:
  struct Makers {
    std::function<const AnelloGpuTable&()> table;             // throws Error{unsupported}
    std::function<GpuGroup(std::optional<int> device)> gpus;  // collective; throws like GpuGroup's constructor
  };

  // `ranks`: a group of the ranks that take part; no other code may use this group.
  NamedCalls(Group ranks, Makers makers);
  ~NamedCalls() override;

  std::shared_ptr<agenda::DeviceOperation> make(const agenda::NamedCall& request) override;
  std::shared_ptr<agenda::DeviceOperation> make_neutral(const agenda::NamedCall& request) override;
  void choose(int device) override;
  void close() override;

 private:
  struct State;
  class Operation;
  std::shared_ptr<State> state_;
};

// Makes the carrier for an agenda of these ranks. All of these ranks must call this in the same order as their other
// calls that make groups. Does not communicate. The world must outlive the result.
std::unique_ptr<agenda::DeviceCarrier> named_calls(World& world, const Group& same_ranks);

}  // namespace anello::gpu
