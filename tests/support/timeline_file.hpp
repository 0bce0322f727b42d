// Parses a timeline, and checks the rules for all timelines.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace anello {

class TimelineFile {
 public:
  using Events = std::vector<nlohmann::json>;

  explicit TimelineFile(const std::filesystem::path& path) : TimelineFile(nlohmann::json::parse(std::ifstream(path))) {}
  explicit TimelineFile(const nlohmann::json& json) {
    for (const auto& event : json.at("traceEvents")) {
      if (event["name"] == "thread_name") rows_[row_of(event)] = event["args"]["name"];
      if (event["name"] == "process_name") ranks.push_back(event["pid"]);
      if (event["name"] == "process_labels")
        within_[event["pid"]] =
            std::stod(std::string(event["args"]["labels"]).substr(std::string("clock within ").size()));
      events.push_back(event);
    }
  }

  Events named(const std::string& name) const {
    return selected([&](const auto& event) { return event["name"] == name && event["ph"] == "X"; });
  }
  Events on_row(int rank, const std::string& row) const {
    return selected([&](const auto& event) {
      const auto found = rows_.find(row_of(event));
      return event["ph"] == "X" && event["pid"] == rank && found != rows_.end() && found->second == row;
    });
  }

  // Checks that every begin has its end, that spans of a row follow each other or are nested, and that messages were
  // sent before they were received: the n-th message received from a rank is the n-th message that this rank sent here.
  // Returns the number of messages.
  std::size_t check() const {
    check_pairs();
    check_nesting();
    return check_messages();
  }

  Events events;
  std::vector<int> ranks;

 private:
  using Row = std::pair<int, int>;
  static Row row_of(const nlohmann::json& event) { return {event["pid"], event["tid"]}; }

  template <class Wanted>
  Events selected(Wanted wanted) const {
    Events some;
    std::copy_if(events.begin(), events.end(), std::back_inserter(some), wanted);
    return some;
  }

  void check_pairs() const {
    std::map<std::pair<int, int>, double> begun;
    for (const auto& event : events) {
      const std::pair<int, int> which{event["pid"], event.value("id", 0)};
      if (event["ph"] == "b") {
        EXPECT_TRUE(begun.emplace(which, event["ts"]).second) << event;
      }
      if (event["ph"] == "e") {
        ASSERT_TRUE(begun.contains(which)) << event;
        EXPECT_LE(begun[which], event["ts"]);
        begun.erase(which);
      }
      if (event["ph"] == "X") {
        EXPECT_GE(event["dur"], 0) << event;
      }
    }
    EXPECT_TRUE(begun.empty()) << begun.size() << " begins without an end";
  }

  void check_nesting() const {
    std::map<Row, Events> by_row;
    for (const auto& event : events)
      if (event["ph"] == "X") by_row[row_of(event)].push_back(event);
    const auto end = [](const auto& event) { return double(event["ts"]) + double(event["dur"]); };
    constexpr double kRounded = 0.002;  // us
    for (auto& [row, spans] : by_row) {
      std::ranges::stable_sort(spans, {}, [](const auto& event) { return double(event["ts"]); });
      std::vector<double> ends;
      for (const auto& span : spans) {
        while (!ends.empty() && ends.back() <= double(span["ts"]) + kRounded) ends.pop_back();
        EXPECT_TRUE(ends.empty() || end(span) <= ends.back() + kRounded) << span << " overlaps on " << rows_.at(row);
        ends.push_back(end(span));
      }
    }
  }

  // Returns "" for the world, " in group (0, 2)" for a group.
  std::set<std::string> places() const {
    std::set<std::string> all;
    for (const auto& [row, name] : rows_)
      if (const std::size_t at = name.find(" in "); name.starts_with("to rank "))
        all.insert(at == std::string::npos ? "" : name.substr(at));
    return all;
  }

  std::size_t check_messages() const {
    std::size_t messages = 0;
    for (const std::string& place : places())
      for (const int from : ranks)
        for (const int to : ranks) messages += check_messages(from, to, place);
    return messages;
  }

  std::size_t check_messages(int from, int to, const std::string& place) const {
    const Events sent = on_row(from, "to rank " + std::to_string(to) + place);
    const Events received = on_row(to, "from rank " + std::to_string(from) + place);
    EXPECT_EQ(sent.size(), received.size()) << from << " to " << to << place;
    for (std::size_t k = 0; k < std::min(sent.size(), received.size()); k++) {
      EXPECT_EQ(sent[k]["args"]["bytes"], received[k]["args"]["bytes"]);
      EXPECT_EQ(sent[k]["args"]["sequence"], received[k]["args"]["sequence"]);
      EXPECT_GE(double(received[k]["ts"]) + double(received[k]["dur"]) + within_.at(from) + within_.at(to),
                double(sent[k]["ts"]))
          << "received before it was sent: " << received[k];
    }
    return received.size();
  }

  std::map<Row, std::string> rows_;
  std::map<int, double> within_;  // us, by rank
};

}  // namespace anello
