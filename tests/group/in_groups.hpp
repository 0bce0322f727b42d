// For tensors in any memory: allreduces in several groups at a time, and in a world that a rank aborts.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/worlds.hpp"

namespace anello::group {

// `count`: elements of the smallest tensor.
template <class Floats>
void reduce_in_several_groups(std::size_t count) {
  run_world(3, [count](World& world) {
    std::vector<Group> groups;
    for (int k = 0; k < 4; k++) groups.push_back(world.group({0, 1, 2}));
    for (int round = 0; round < 10; round++) {
      std::vector<Floats> tensors;
      std::vector<Work> works;
      for (std::size_t k = 0; k < groups.size(); k++) tensors.emplace_back(count * (k + 1), float(world.rank() + 1));
      for (std::size_t k = 0; k < groups.size(); k++) works.push_back(groups[k].allreduce_async(tensors[k]));
      for (Work& work : works) work.wait();
      for (const Floats& tensor : tensors)
        EXPECT_TRUE(std::ranges::all_of(tensor, [](float value) { return value == 6; }));
    }
  });
}

// One rank aborts at some moment, and all ranks get the error. After that no rank may use the tensors of another.
template <class Floats>
void abort_at_every_moment() {
  for (int moment = 0; moment < 12; moment++) {
    std::atomic<int> told = 0;
    run_world(3, [&](World& world) {
      Floats values(500'000);
      try {
        world.allreduce(values);  // may still run here when another rank aborts
        for (int k = 0;; k++) {
          Work work = world.allreduce_async(values, Op::max);
          if (world.rank() == moment % 3 && k == moment) {
            std::this_thread::sleep_for(std::chrono::microseconds(50 * moment));
            world.abort("enough");
          }
          work.wait();
        }
      } catch (const Error& e) {
        told += e.code() == ErrorCode::aborted;
        values = Floats(values.size(), 1.F);
      }
    });
    EXPECT_EQ(told, 3);
  }
}

}  // namespace anello::group
