#include "ring/net/frame.hpp"

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello {
namespace {

constexpr std::string_view kWhat = "control";

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::protocol, text(kWhat, " message: ", why));
}

Verdict decode_verdict(Reader& reader, int world) {
  Verdict verdict;
  verdict.code = Code(reader.u8());
  verdict.culprit = reader.i32();
  verdict.message = reader.str(Frame::kMaxMessageBytes);
  if (name(verdict.code) == "?") refuse(text("no error has the code ", int(verdict.code)));
  if (verdict.culprit < -1 || verdict.culprit >= world) refuse(text("rank ", verdict.culprit, " of ", world));
  return verdict;
}

}  // namespace

std::string encode(const Frame& frame) {
  Writer writer;
  writer.i32(frame.origin).u32(frame.number).u8(std::uint8_t(frame.type));
  if (frame.type == Frame::Type::proposal || frame.type == Frame::Type::decision)
    writer.u8(std::uint8_t(frame.verdict.code)).i32(frame.verdict.culprit).str(frame.verdict.message);
  if (frame.type == Frame::Type::goodbye) writer.u64(frame.group).u64(frame.completed);
  for (const Signature& signature : frame.signatures) {
    writer.u64(signature.group);
    const auto bytes = encode(signature);
    writer.raw({bytes.data(), bytes.size()});
  }
  return std::move(writer).take();
}

Frame decode_frame(std::string_view bytes, int world) {
  Reader reader(kWhat, bytes);
  Frame frame;
  frame.origin = reader.i32();
  frame.number = reader.u32();
  frame.type = Frame::Type(reader.u8());
  if (frame.origin < 0 || frame.origin >= world) refuse(text("from rank ", frame.origin, " of ", world));
  if (frame.type < Frame::Type::proposal || frame.type > Frame::Type::waiting)
    refuse(text("unknown type ", int(frame.type)));
  const bool of_operations = frame.type == Frame::Type::goodbye || frame.type == Frame::Type::waiting;
  if (!of_operations) frame.verdict = decode_verdict(reader, world);
  if (frame.type == Frame::Type::goodbye) {
    frame.group = reader.u64();
    frame.completed = reader.u64();
  }
  const std::size_t most = frame.type == Frame::Type::waiting ? 1 : of_operations ? Frame::kMaxSignatures : 0;
  while (reader.left() > 0 && frame.signatures.size() < most) {
    const std::uint64_t group = reader.u64();
    frame.signatures.push_back(decode_signature(reader.raw(kSignatureBytes)));
    frame.signatures.back().group = group;
  }
  reader.finish();
  if (frame.type == Frame::Type::waiting && frame.signatures.empty()) refuse("waiting, but in no operation");
  return frame;
}

}  // namespace anello
