#include "rendezvous/launch/cli/dry_run.hpp"

#include <algorithm>

#include "rendezvous/launch/base/shell_words.hpp"
#include "rendezvous/launch/job/environment.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using Words = std::vector<std::string>;

struct PlannedRank {
  int rank;
  std::string host;
  Words variables;
};

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += " " + quoted(word);
  return out;
}

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

Words common_variables(const std::vector<PlannedRank>& ranks) {
  Words out;
  for (const std::string& variable : ranks[0].variables)
    if (std::ranges::all_of(ranks, [&](const PlannedRank& one) { return contains(one.variables, variable); }))
      out.push_back(variable);
  return out;
}

// Uses names in capitals for values that are only found when the job starts.
MeetingPlaces places_before_start(const Job& job) {
  const std::string& host = job.layout.front().host;
  MeetingPlaces out{job.rendezvous, job.master};
  if (out.rendezvous.empty()) out.rendezvous = job.remote ? "THIS_HOST:PORT" : "127.0.0.1:PORT";
  if (out.master.address.empty())
    out.master.address = job.remote ? "ADDRESS_OF_" + host.substr(host.find('@') + 1) : "127.0.0.1";
  if (out.master.port.empty()) out.master.port = "PORT";
  return out;
}

std::vector<PlannedRank> planned_ranks(const Job& job) {
  std::vector<PlannedRank> out;
  const MeetingPlaces places = places_before_start(job);
  for (const HostRanks& here : job.layout)
    for (int rank = here.first; rank < here.first + here.count; rank++)
      out.push_back(
          {rank, here.host,
           variables_set_for(job, here, rank, places, job.remote ? "SHARE_OF_CORES" : threads_of_rank(here))});
  return out;
}

}  // namespace

std::string describe(const Job& job) {
  const std::vector<PlannedRank> ranks = planned_ranks(job);
  const Words common = ranks.size() > 1 ? common_variables(ranks) : Words();
  std::string out = text("each rank runs:", joined(job.command), "\n");
  if (job.remote) out += text("other hosts are reached by:", joined(job.remote->command), "\n");
  if (!common.empty()) out += text("each rank has:", joined(common), "\n");
  for (const PlannedRank& one : ranks) {
    Words own;
    for (const std::string& variable : one.variables)
      if (!contains(common, variable)) own.push_back(variable);
    out += text("rank ", one.rank, " on ", one.host, ":", joined(own), "\n");
  }
  return out;
}

}  // namespace anello::launch
