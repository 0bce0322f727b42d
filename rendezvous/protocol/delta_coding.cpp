#include "rendezvous/protocol/delta_coding.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <limits>

#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::size_t kMaxShared = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kMinDeltaBytes = 2 + 2 + 4;

// Returns how many bytes two ranges share at their beginning, at most `max`.
template <class Iterator>
std::size_t shared_bytes(Iterator a, Iterator b, std::size_t max) {
  return std::size_t(std::mismatch(a, a + std::ptrdiff_t(std::min(max, kMaxShared)), b).first - a);
}

void write_delta(Writer& out, std::string_view before, std::string_view now) {
  const std::size_t both = std::min(before.size(), now.size());
  const std::size_t first = shared_bytes(now.begin(), before.begin(), both);
  const std::size_t last = shared_bytes(now.rbegin(), before.rbegin(), both - first);
  out.u16(std::uint16_t(first)).u16(std::uint16_t(last)).str(now.substr(first, now.size() - first - last));
}

std::string read_delta(Reader& in, std::string_view before, std::size_t max_bytes) {
  const std::size_t first = in.u16(), last = in.u16();
  if (first + last > before.size())
    throw Error(ErrorCode::protocol, text("rendezvous message: a delta refers to ", first, " + ", last,
                                          " bytes of a text that has ", before.size()));
  const std::string own = in.str(max_bytes);
  std::string out;
  out.reserve(first + own.size() + last);
  out.append(before.substr(0, first)).append(own).append(before.substr(before.size() - last));
  return out;
}

}  // namespace

void write_deltas(Writer& out, const std::vector<std::string>& texts) {
  std::size_t written = texts.size();
  while (written > 1 && texts[written - 1] == texts[written - 2]) written--;
  out.u32(std::uint32_t(texts.size())).u32(std::uint32_t(written));
  std::string_view before;
  for (std::size_t i = 0; i < written; i++) {
    write_delta(out, before, texts[i]);
    before = texts[i];
  }
}

std::vector<std::string> read_deltas(Reader& in, const DeltaLimits& limits) {
  const std::size_t count = in.u32(), written = in.u32();
  if (count > limits.texts || written > count || written > in.left() / kMinDeltaBytes || (written == 0 && count > 0))
    throw Error(ErrorCode::protocol, text("rendezvous message: claims ", count, " blobs in ", in.left(), " bytes"));
  std::vector<std::string> texts;
  std::size_t all_bytes = 0;
  const auto require_room = [&](std::size_t copies, std::size_t bytes) {
    if (bytes <= limits.text_bytes && copies * bytes <= limits.all_bytes - all_bytes) return;
    throw Error(ErrorCode::protocol, text("rendezvous message: ", copies, " blobs of ", bytes, " bytes after ",
                                          all_bytes, " bytes of others are more than allowed"));
  };
  for (std::size_t i = 0; i < written; i++) {
    std::string now = read_delta(in, texts.empty() ? std::string_view() : texts.back(), limits.text_bytes);
    require_room(1, now.size());
    all_bytes += now.size();
    texts.push_back(std::move(now));
  }
  if (count > written) {
    require_room(count - written, texts.back().size());
    const std::string last = texts.back();
    texts.resize(count, last);
  }
  return texts;
}

}  // namespace anello::rendezvous
