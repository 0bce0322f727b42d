// Named operations between ranks that are threads, for tests.
#pragma once
#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <vector>

#include "ring/agenda/scheduler.hpp"
#include "tests/support/worlds.hpp"

namespace anello::agenda {

template <class T>
ArrayView view_of(std::vector<T>& elements) {
  return {elements.data(), {elements.size()}, dtype_of<T>()};
}

template <class T>
std::vector<T> output(NamedOperation& operation, std::size_t index = 0) {
  const Tensor tensor = operation.outputs().at(index).tensor();
  EXPECT_EQ(tensor.dtype, dtype_of<T>());
  std::vector<T> copy(tensor.count);
  if (tensor.count > 0) std::memcpy(copy.data(), tensor.data, tensor.bytes());
  return copy;
}

// Runs `program` on each rank of a world, with the rank's scheduler. The schedulers end in good order.
inline void run_agendas(int ranks, const std::function<void(World&, Scheduler&)>& program,
                        const Settings& settings = Settings::from_environment()) {
  run_world(
      ranks,
      [&](World& world) {
        const auto scheduler = Scheduler::make(world);
        program(world, *scheduler);
        const auto barrier = scheduler->submit({.verb = Verb::barrier, .name = "end of test"}, true);
        EXPECT_TRUE(scheduler->wait(*barrier));
        EXPECT_EQ(barrier->error() ? barrier->error()->message() : "", "");
        scheduler->close();
      },
      settings);
}

inline void wait(Scheduler& scheduler, const Scheduler::Handle& operation) {
  ASSERT_TRUE(scheduler.wait(*operation));
  if (operation->error()) throw Error(*operation->error());
}

}  // namespace anello::agenda
