#include "rendezvous/launch/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {
Mixer::TimePoint now() {
  return std::chrono::steady_clock::now();
}
}  // namespace

Output::Output(const std::string& folder) : folder_(folder) {
  if (!folder_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw Error(ErrorCode::file, text("--output ", folder_, ": ", error.message()));
  }
  outlets_.push_back(std::make_unique<Outlet>(STDOUT_FILENO));
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) outlets_.push_back(std::make_unique<Outlet>(STDERR_FILENO));
  own_stream_ = outlets_.back()->mixer.add_stream(-1);
}

Output::Ends Output::add_rank(int rank) {
  Ends ends;
  ends.out = add_stream(rank, *outlets_.front(), ".out");
  if (outlets_.size() > 1 || !folder_.empty()) ends.err = add_stream(rank, *outlets_.back(), ".err");
  return ends;
}

Descriptor Output::add_stream(int rank, Outlet& outlet, const char* extension) {
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.read);
  auto stream = std::make_unique<Stream>();
  stream->from = std::move(pipe.read);
  stream->outlet = &outlet;
  stream->id = outlet.mixer.add_stream(rank);
  if (!folder_.empty()) {
    stream->file_name = text(folder_, "/rank.", rank, extension);
    stream->file = Descriptor(open(stream->file_name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!stream->file) throw system_error("opening " + stream->file_name, ErrorCode::file);
  }
  streams_.push_back(std::move(stream));
  return std::move(pipe.write);
}

void Output::print(const std::string& sentence) {
  outlets_.back()->mixer.feed(own_stream_, "anello: " + sentence + "\n", now());
}

void Output::line_typed() {
  for (const auto& outlet : outlets_) outlet->mixer.line_typed();
}

void Output::watch(PollSet& polls) {
  for (const auto& outlet : outlets_) {
    outlet->sink.watch(polls, outlet->mixer.out());
    polls.until(outlet->mixer.next_tick());
  }
  for (const auto& stream : streams_)
    if (stream->from && stream->outlet->mixer.accepts(stream->id))
      polls.add(stream->from.get(), POLLIN, [this, &stream = *stream](short) { read_some(stream); });
}

void Output::tick() {
  for (const auto& outlet : outlets_) outlet->mixer.tick(now());
}

void Output::read_some(Stream& stream) {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = read(stream.from.get(), bytes.data(), bytes.size());
  if (got > 0) {
    write_file(stream, {bytes.data(), std::size_t(got)});
    stream.outlet->mixer.feed(stream.id, {bytes.data(), std::size_t(got)}, now());
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.from.close();
    stream.outlet->mixer.end(stream.id, now());
  }
}

void Output::write_file(Stream& stream, std::string_view bytes) try {
  if (stream.file) write_all(stream.file.get(), bytes, stream.file_name);
} catch (const Error& error) {
  stream.file.close();
  if (file_failure_.empty()) file_failure_ = error.what();
}

void Output::close_streams() {
  for (const auto& stream : streams_) {
    if (!stream->from) continue;
    stream->from.close();
    stream->outlet->mixer.end(stream->id, now());
  }
}

bool Output::streams_closed() const {
  return std::ranges::none_of(streams_, [](const auto& stream) { return bool(stream->from); });
}

bool Output::written() const {
  return std::ranges::all_of(outlets_,
                             [](const auto& outlet) { return outlet->mixer.out().empty() || !outlet->sink.open(); });
}

bool Output::reader_gone() const {
  return std::ranges::any_of(outlets_, [](const auto& outlet) { return outlet->sink.reader_gone(); });
}

std::string Output::failure() const {
  for (const auto& outlet : outlets_)
    if (!outlet->sink.failure().empty()) return outlet->sink.failure();
  return file_failure_;
}

}  // namespace anello::launch
