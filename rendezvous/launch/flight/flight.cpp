#include "rendezvous/launch/flight/flight.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "rendezvous/protocol/describe.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using nlohmann::json;

std::string printable_at(const json& object, const char* key) {
  return printable(object.at(key).get<std::string>());
}

Flight::Operation parse_operation(const json& from) {
  Flight::Operation operation;
  operation.sequence = from.at("sequence").get<std::uint64_t>();
  operation.text = printable_at(from, "operation");
  operation.name = printable_at(from, "name");
  const std::string state = from.at("state").get<std::string>();
  operation.state = state == "done"    ? Flight::State::done
                    : state == "begun" ? Flight::State::begun
                                       : Flight::State::queued;
  const json& since = from.at(state == "done" ? "ended_us" : state == "begun" ? "begun_us" : "queued_us");
  if (!since.is_null()) operation.since_us = since.get<std::int64_t>();
  return operation;
}

Flight::Group parse_group(const json& from) {
  Flight::Group group{printable_at(from, "id"), printable_at(from, "group"), from.at("members"), {}};
  for (const json& operation : from.at("operations")) group.operations.push_back(parse_operation(operation));
  return group;
}

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::file, text("'", path.string(), "' cannot be read"));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string seconds_before(std::int64_t end_us, std::int64_t time_us) {
  return text(std::round(double(end_us - time_us) / 1e4) / 100, " s");
}

std::string shown(const Flight::Operation& operation) {
  return operation.name.empty() ? operation.text : text(operation.text, " '", operation.name, "'");
}

// Reports the operations of the ranks of one group.
class GroupReport {
 public:
  GroupReport(const Flight::Group& group, const std::vector<Flight>& flights, std::int64_t end_us)
      : group_(group), end_us_(end_us) {
    for (const Flight& flight : flights) {
      const auto theirs = std::ranges::find(flight.groups, group.id, &Flight::Group::id);
      ranks_[flight.rank] = {&flight, theirs == flight.groups.end() ? nullptr : &*theirs};
      if (theirs == flight.groups.end()) continue;
      for (const Flight::Operation& operation : theirs->operations)
        if (operation.state != Flight::State::done && (!first_ || operation.sequence < first_->sequence))
          first_ = &operation;
    }
  }

  // Describes the first operation that is not done on all ranks. Empty if all operations are done.
  std::string text_of_it() const {
    if (!first_) return {};
    std::string out = text(group_.name, ": ", shown(*first_), "\n");
    for (const int member : group_.members) out += line(member);
    return out;
  }

 private:
  std::string line(int member) const {
    const auto at = ranks_.find(member);
    if (at == ranks_.end()) return text("  rank ", member, ": no file\n");
    const auto& [flight, theirs] = at->second;
    const std::string rank = text("  rank ", member, " on ", flight->host, ": ");
    if (!theirs) return rank + "NEVER CAME; it has not made this group, or has left it\n";
    const auto& operations = theirs->operations;
    const auto found = std::ranges::find(operations, first_->sequence, &Flight::Operation::sequence);
    if (found != operations.end()) return rank + describe(*found);
    if (operations.empty()) return rank + "NEVER CAME; it has called nothing in this group\n";
    return rank + text("NEVER CAME; its last call in this group is ", shown(operations.back()), ", ",
                       describe_state(operations.back()), "\n");
  }

  std::string describe(const Flight::Operation& operation) const {
    const std::string other = operation.text == first_->text ? "" : text("calls ", shown(operation), " INSTEAD, ");
    return text(other, describe_state(operation), "\n");
  }

  std::string describe_state(const Flight::Operation& operation) const {
    const std::string before = seconds_before(end_us_, operation.since_us);
    if (operation.state == Flight::State::done) return text("done ", before, " before the end");
    return text(operation.state == Flight::State::begun ? "waiting since " : "queued since ", before,
                " before the end");
  }

  const Flight::Group& group_;
  const std::int64_t end_us_;
  std::map<int, std::pair<const Flight*, const Flight::Group*>> ranks_;
  const Flight::Operation* first_ = nullptr;
};

std::string last_of(const Flight& flight, std::int64_t end_us) {
  const Flight::Operation* last = nullptr;
  const Flight::Group* where = nullptr;
  for (const Flight::Group& group : flight.groups)
    for (const Flight::Operation& operation : group.operations)
      if (!last || operation.since_us >= last->since_us) last = &operation, where = &group;
  if (!last) return text("  rank ", flight.rank, " on ", flight.host, ": nothing\n");
  const char* const state = last->state == Flight::State::done    ? "done"
                            : last->state == Flight::State::begun ? "begun"
                                                                  : "queued";
  return text("  rank ", flight.rank, " on ", flight.host, ": ", shown(*last), " in ", where->name, ", ", state, " ",
              seconds_before(end_us, last->since_us), " before the end\n");
}

}  // namespace

Flight parse_flight(std::string_view bytes) {
  try {
    const json from = json::parse(bytes);
    Flight flight{from.at("rank"), from.at("size"), printable_at(from, "host"), printable_at(from, "job"),
                  printable_at(from, "why")};
    flight.world = text(flight.job, "/", printable_at(from, "incarnation"), "/", from.at("generation").get<unsigned>());
    flight.written_us = from.at("written_us").get<std::int64_t>();
    for (const json& group : from.at("groups")) flight.groups.push_back(parse_group(group));
    return flight;
  } catch (const json::exception& error) {
    throw Error(ErrorCode::file, text("not a flight recorder's file: ", error.what()));
  }
}

std::vector<Flight> read_flights(const std::filesystem::path& folder, const std::string& job,
                                 std::vector<std::string>& skipped) {
  std::vector<Flight> all;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("anello-flight.") || !name.ends_with(".json")) continue;
    try {
      all.push_back(parse_flight(bytes_of_file(entry.path())));
    } catch (Error& error) {
      skipped.emplace_back(error.within(entry.path().string()).what());
    }
  }
  if (failure) throw Error(ErrorCode::file, text("'", folder.string(), "' cannot be read: ", failure.message()));
  if (!job.empty()) std::erase_if(all, [&](const Flight& flight) { return flight.job != job; });
  if (all.empty())
    throw Error(ErrorCode::file, text("'", folder.string(), "' has no flight recorder's file",
                                      job.empty() ? "" : " of job '" + job + "'", " (anello-flight.*.json)"));
  const std::string newest = std::ranges::max(all, {}, &Flight::written_us).world;
  std::erase_if(all, [&](const Flight& flight) { return flight.world != newest; });
  std::ranges::sort(all, {}, &Flight::rank);
  return all;
}

std::string explain(const std::vector<Flight>& flights) {
  const std::int64_t end_us = std::ranges::max(flights, {}, &Flight::written_us).written_us;
  std::set<int> present;
  for (const Flight& flight : flights) present.insert(flight.rank);
  std::vector<int> absent;
  for (int rank = 0; rank < flights[0].size; rank++)
    if (!present.contains(rank)) absent.push_back(rank);
  std::string out = text("job ", flights[0].job, ", ", flights[0].size, " ranks: ", flights[0].why, "\n");
  if (!absent.empty())
    out += text("no file from ", rank_list(absent),
                " in this folder: its process was killed, or the file is on its host\n");
  std::string groups;
  std::set<std::string> reported;
  for (const Flight& flight : flights)
    for (const Flight::Group& group : flight.groups)
      if (reported.insert(group.id).second) groups += GroupReport(group, flights, end_us).text_of_it();
  out +=
      groups.empty()
          ? "\nevery operation that has begun is done; named ones (Horovod's) begin when all ranks have called them\n"
          : "\nnot done:\n" + groups;
  out += "\nlast operation of each rank:\n";
  for (const Flight& flight : flights) out += last_of(flight, end_us);
  return out;
}

}  // namespace anello::launch
