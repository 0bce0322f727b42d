#include "ring/world/last_word.hpp"

#include <sys/socket.h>

#include <anello/error.hpp>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::world {

std::string encode(const LastWord& word) {
  Writer out;
  out.i32(word.rank).i32(word.culprit).str(std::string_view(word.message).substr(0, LastWord::kMaxMessageBytes));
  out.u32(word.generation);
  return std::move(out).take();
}

std::optional<LastWord> decode_last_word(std::string_view bytes) {
  try {
    Reader in("last word", bytes);
    LastWord word{in.i32(), in.i32(), printable(in.str(LastWord::kMaxMessageBytes), LastWord::kMaxMessageBytes),
                  in.u32()};
    in.finish();
    return word;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A script may have reused the descriptor for a file. Then send() fails, and the file stays unchanged.
void send_last_word(int descriptor, const LastWord& word) {
  if (descriptor < 0) return;
  const std::string bytes = encode(word);
  (void)!send(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace anello::world
