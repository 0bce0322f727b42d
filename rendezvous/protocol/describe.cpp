#include "rendezvous/protocol/describe.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <utility>

#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {
constexpr std::size_t kMaxListed = 16;

std::string counted(std::size_t count, std::string_view noun) {
  return text(count, " ", noun, count == 1 ? "" : "s");
}
}  // namespace

std::string describe(const Join& join) {
  if (join.rank < 0) return text("the process ", join.pid, " on ", join.host);
  return text("rank ", join.rank, " (", join.host, ", pid ", join.pid, ")");
}

std::string claimed_twice(const Join& first, const Join& second) {
  const auto process = [](const Join& one) {
    return text(one.host, " (pid ", one.pid, ", started by process ", one.parent, ", address ", one.address, ")");
  };
  return text(
      "rank ", second.rank, " is claimed twice: by ", process(first), " and by ", process(second),
      "; possible causes: another job at the same rendezvous (give each job its own ANELLO_JOB, MASTER_PORT or "
      "server), an earlier job that has not ended (end it), one rank given to two processes (ANELLO_RANK, RANK)");
}

std::string started_apart(const std::vector<Join>& all) {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<int>> starts;  // ranks by machine and parent process
  std::map<std::string, std::size_t> parents, ranks;
  for (const Join& join : all) {
    std::vector<int>& start = starts[{join.machine, join.parent}];
    if (start.empty()) parents[join.machine]++;
    ranks[join.machine]++;
    start.push_back(join.rank);
  }
  for (const auto& [machine, count] : parents) {
    if (count == 1 || count == ranks[machine]) continue;
    std::string out;
    for (const auto& [where, of] : starts)
      if (where.first == machine) out += text(out.empty() ? "" : ", ", rank_list(of), " by process ", where.second);
    return text("the ranks of one host were not started together: ", out,
                "; if these are two jobs, give each a MASTER_PORT or ANELLO_JOB of its own");
  }
  return {};
}

std::string seconds(std::chrono::milliseconds duration) {
  const double all = double(duration.count()) / 1000;
  return text(all < 1 ? all : std::round(all * 10) / 10, " s");
}

Error as_error(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  if (!dynamic_cast<const std::bad_alloc*>(&thrown)) return {ErrorCode::rendezvous, thrown.what()};
  return {ErrorCode::rendezvous, std::string(kOutOfMemory)};
}

std::string present_list(const std::vector<Join>& present) {
  std::vector<std::string> hosts;
  for (const Join& join : present)
    if (std::find(hosts.begin(), hosts.end(), join.host) == hosts.end()) hosts.push_back(join.host);
  std::string out;
  for (std::size_t i = 0; i < hosts.size(); i++) {
    if (i == kMaxListed) return out + text(" and ", counted(hosts.size() - i, "other host"));
    std::vector<int> ranks;
    std::size_t members = 0;
    for (const Join& join : present) {
      if (join.host != hosts[i]) continue;
      members++;
      if (join.rank >= 0) ranks.push_back(join.rank);
    }
    std::sort(ranks.begin(), ranks.end());
    const bool numbered = ranks.size() == members;
    out += text(i == 0 ? "" : ", ", hosts[i], " (", numbered ? rank_list(ranks) : counted(members, "rank"), ")");
  }
  return out;
}

}  // namespace anello::rendezvous
