// The state machines of one rank, without other ranks: the test writes the messages of the others. One thread.
#pragma once
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "ring/failure/departures.hpp"
#include "ring/failure/flood.hpp"
#include "ring/failure/mismatches.hpp"
#include "ring/failure/stall_reports.hpp"

namespace anello::failure {

constexpr std::chrono::milliseconds kFirstMoment{1000};

inline std::vector<ControlMessage> sent(Flood& flood) {
  std::vector<ControlMessage> messages;
  for (const std::string& bytes : flood.take_outbox()) messages.push_back(decode_control_message(bytes, 4));
  return messages;
}

struct Alone {
  Alone(
      int rank, int size, LocalView::Recall recall = [](auto, auto) { return std::nullopt; })
      : view(rank, std::vector<std::string>(std::size_t(size), "b"), std::move(recall)), flood(rank, size) {}
  LocalView view;
  Flood flood;
  Departures departures{view, flood};
  MismatchDetector mismatches{view, departures, flood};
  StallReports stalls{view, departures, mismatches, flood};
};

}  // namespace anello::failure
