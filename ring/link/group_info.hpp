// The identity of a group of ranks, and the bell of the thread that moves the group's data. All objects that work for
// the group share one GroupInfo, which never changes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring/link/bell.hpp"

namespace anello::link {

struct GroupInfo {
  std::uint64_t id = 0;      // 0 is the world
  std::string name;          // name for error messages: "group (0, 2)"
  std::vector<int> members;  // world ranks, by rank in the group
  std::shared_ptr<Bell> bell = std::make_shared<Bell>();
};

}  // namespace anello::link
