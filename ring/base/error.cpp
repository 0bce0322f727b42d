#include <anello/error.hpp>
#include <array>

namespace anello {

std::string_view name(ErrorCode code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "?",        "invalid_argument", "configuration", "unsupported", "file",      "network",
      "protocol", "unauthorized",     "rendezvous",    "mismatch",    "rank_dead", "rank_left",
      "aborted",  "timed_out",        "rank_silent",   "diverged",    "device"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

Error::Error(ErrorCode code, std::string message, int rank)
    : code_(code), rank_(rank), message_(std::move(message)), what_(message_) {}

Error& Error::within(std::string_view attempt) {
  what_ = std::string(attempt) + ": " + what_;
  return *this;
}

}  // namespace anello
