#include "gpu/collective_check.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/text.hpp"

namespace anello::gpu {

void all_or_none(World& world, const std::function<void()>& attempt) {
  constexpr std::size_t kRoom = 512;
  std::array<char, kRoom> mine{};  // what went wrong; ends with a null
  try {
    attempt();
  } catch (const Error& error) {
    std::string_view(error.what()).copy(mine.data(), kRoom - 1);
  }
  std::vector<char> all(kRoom * std::size_t(world.size()));
  world.allgather(ConstTensor(mine.data(), kRoom, DType::u8), Tensor(all.data(), all.size(), DType::u8),
                  {.name = "whether all have what GPUs need"});
  for (int rank = 0; rank < world.size(); rank++)
    if (const std::string trouble = all.data() + kRoom * std::size_t(rank); !trouble.empty())
      throw Error(ErrorCode::unsupported, text("rank ", rank, " on ", world.host(rank), ": ", trouble), rank);
}

}  // namespace anello::gpu
