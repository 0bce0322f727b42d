// The last word of a rank: its message to the launcher when its world has failed. It names the rank at fault. A rank
// that fails because of another rank may exit first, so the order of exits does not show the launcher which rank is at
// fault. Sent on a local socket that the rank inherits (ANELLO_REPORT_FD). Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anello::world {

struct LastWord {
  static constexpr std::size_t kMaxMessageBytes = 2048;

  std::int32_t rank = 0, culprit = -1;  // `rank`: the sender; `culprit`: the rank at fault, or -1: no single rank
  std::string message;                  // describes the failure
  std::uint32_t generation = 0;         // generation of the failed world; 0: the rank has joined no world
};

std::string encode(const LastWord& word);
// Returns an empty value if the bytes are not a last word.
std::optional<LastWord> decode_last_word(std::string_view bytes);

// Does not block. Does nothing if `descriptor` is not a socket, or if its other end is closed.
void send_last_word(int descriptor, const LastWord& word);

}  // namespace anello::world
