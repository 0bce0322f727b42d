// Messages as bytes: little-endian; lengths are checked before anything is read or allocated. A Writer owns its bytes,
// a Reader borrows them. If the bytes are invalid, a Reader throws Error{protocol} with the name of the message.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace anello {

class Writer {
 public:
  Writer& u8(std::uint8_t value) { return number(value, 1); }
  Writer& u16(std::uint16_t value) { return number(value, 2); }
  Writer& u32(std::uint32_t value) { return number(value, 4); }
  Writer& u64(std::uint64_t value) { return number(value, 8); }
  Writer& i32(std::int32_t value) { return number(static_cast<std::uint32_t>(value), 4); }
  Writer& raw(std::string_view bytes) { return out_.append(bytes), *this; }  // writes the bytes without their length
  Writer& str(std::string_view bytes) {
    return u32(std::uint32_t(bytes.size())).raw(bytes);
  }  // writes the length, then the bytes
  const std::string& bytes() const { return out_; }
  std::string take() && { return std::move(out_); }

 private:
  Writer& number(std::uint64_t value, int bytes);
  std::string out_;
};

class Reader {
 public:
  // `what`: the message's name, for errors.
  Reader(std::string_view what, std::string_view bytes) : what_(what), left_(bytes) {}
  std::uint8_t u8() { return std::uint8_t(number(1)); }
  std::uint16_t u16() { return std::uint16_t(number(2)); }
  std::uint32_t u32() { return std::uint32_t(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::string_view raw(std::size_t bytes);
  std::string str(std::size_t max_bytes);  // refuses a claimed length above `max_bytes`
  std::size_t left() const { return left_.size(); }
  void finish() const;  // throws if not all bytes have been read

 private:
  std::uint64_t number(int bytes);
  std::string_view what_, left_;
};

}  // namespace anello
