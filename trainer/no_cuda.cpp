// Replaces trainer/cuda outside of Anello's own tree, where trainer/cuda is not built.
#include <anello/error.hpp>

#include "trainer/device.hpp"

namespace anello::trainer {

std::unique_ptr<Device> make_cuda_device(World&, bool) {
  throw Error(ErrorCode::unsupported,
              "--device cuda: this anello-train was built without GPUs; use the one that Anello's own build makes");
}

}  // namespace anello::trainer
