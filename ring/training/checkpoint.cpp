#include <anello/checkpoint.hpp>

#include "ring/base/file.hpp"
#include "ring/base/text.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello {

void save_on_rank_0(Group& group, const std::string& path, std::string_view bytes) {
  std::string problem;
  if (group.rank() == 0) {
    try {
      replace_file(path, bytes, ReadableBy::all, Until::on_disk);
      // The other ranks wait for an answer, so the exception's text becomes the answer.
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  problem = group::broadcast_text(0, group, problem, {.name = "checkpoint"});
  if (!problem.empty())
    throw Error(ErrorCode::file, text("the checkpoint of rank 0 was not saved: ", problem), group.members()[0]);
}

}  // namespace anello
