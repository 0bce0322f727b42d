#include <anello/error.hpp>

#include "ring/base/text.hpp"
#include "trainer/backend.hpp"

namespace anello::trainer {

std::unique_ptr<Backend> pick_device(std::string_view device, int local_rank) {
  if (device == "cuda")
    throw Error(Code::unsupported, text("--device cuda: this build has no GPU plugin, so local rank ", local_rank,
                                        " has no GPU to train on; use --device cpu or auto"));
  return make_cpu_backend();
}

}  // namespace anello::trainer
