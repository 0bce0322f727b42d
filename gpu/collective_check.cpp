#include "gpu/collective_check.hpp"

#include <anello/error.hpp>
#include <string>

#include "ring/base/text.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello::gpu {

void all_or_none(const World& world, Group& ranks, const std::function<void()>& attempt) {
  std::string failure;
  try {
    attempt();
  } catch (const Error& error) {
    if (ranks.failure()) throw;
    failure = error.what();
  }
  const auto failures = group::gather_text(ranks, failure, {.name = "whether all ranks can use their GPU"});
  for (std::size_t i = 0; i < failures.size(); i++)
    if (const int rank = ranks.members()[i]; !failures[i].empty())
      throw Error(ErrorCode::unsupported, text("rank ", rank, " on ", world.host(rank), ": ", failures[i]), rank);
}

}  // namespace anello::gpu
