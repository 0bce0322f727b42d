// Named operations on tensors in GPU memory: allreduces and broadcasts, which a thread gives to a GpuGroup in the order
// that the ranks have agreed on. Each waits for the work that was queued on the program's stream when it was submitted.
// The GpuGroup is made when the first operation starts, so that programs may choose their GPU until then.
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
    std::function<GpuGroup(std::optional<int> device)> gpus;  // all ranks call; throws as GpuGroup's constructor
  };

  // `ranks`: those that take part, in a group that nothing else uses.
  NamedCalls(Group ranks, Makers makers);
  ~NamedCalls() override;

  std::shared_ptr<agenda::DeviceOperation> make(const agenda::Request& request) override;
  std::shared_ptr<agenda::DeviceOperation> make_neutral(const agenda::Request& request) override;
  void choose(int device) override;
  void close() override;

 private:
  struct State;
  class Operation;
  std::shared_ptr<State> state_;
};

// For an agenda of those ranks, which all call, in the same order as other calls that make groups. Does not
// communicate. The world must outlive it.
std::unique_ptr<agenda::DeviceCarrier> named_calls(World& world, const Group& same_ranks);

}  // namespace anello::gpu
