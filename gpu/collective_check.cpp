#include "gpu/collective_check.hpp"

#include <anello/error.hpp>
#include <string>

#include "ring/base/text.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello::gpu {

void all_or_none(World& world, const std::function<void()>& attempt) {
  std::string failure;
  try {
    attempt();
  } catch (const Error& error) {
    failure = error.what();
  }
  const auto failures = group::gather_text(world, failure, {.name = "whether all ranks can use their GPU"});
  for (int rank = 0; rank < world.size(); rank++)
    if (const std::string& its = failures[std::size_t(rank)]; !its.empty())
      throw Error(ErrorCode::unsupported, text("rank ", rank, " on ", world.host(rank), ": ", its), rank);
}

}  // namespace anello::gpu
