#include "ring/base/wire.hpp"

#include <anello/error.hpp>

#include "ring/base/text.hpp"

namespace anello {

Writer& Writer::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out_.push_back(char(value >> (8 * i)));
  return *this;
}

std::string_view Reader::raw(std::size_t bytes) {
  if (bytes > left_.size())
    throw Error(ErrorCode::protocol, text(what_, " message: ", bytes, " bytes expected, ", left_.size(), " left"));
  const std::string_view result = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return result;
}

std::uint64_t Reader::number(int bytes) {
  std::uint64_t value = 0;
  const std::string_view from = raw(std::size_t(bytes));
  for (int i = 0; i < bytes; i++) value |= std::uint64_t(static_cast<unsigned char>(from[std::size_t(i)])) << (8 * i);
  return value;
}

std::string Reader::str(std::size_t max_bytes) {
  const std::uint32_t bytes = u32();
  if (bytes > max_bytes)
    throw Error(ErrorCode::protocol,
                text(what_, " message: claims ", bytes, " bytes where ", max_bytes, " are allowed"));
  return std::string(raw(bytes));
}

void Reader::finish() const {
  if (!left_.empty()) throw Error(ErrorCode::protocol, text(what_, " message: ", left_.size(), " bytes too many"));
}

}  // namespace anello
