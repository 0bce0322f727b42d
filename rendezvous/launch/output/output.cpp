#include "rendezvous/launch/output/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "rendezvous/launch/base/timestamp.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {
Mixer::TimePoint now() {
  return std::chrono::steady_clock::now();
}

// Makes the folder. Returns false if it already has output of ranks.
bool make_unused(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::filesystem::directory_iterator entry(folder, error);
  if (error) throw Error(ErrorCode::file, text("--output ", folder, ": ", error.message()));
  return std::none_of(begin(entry), end(entry), [](const std::filesystem::directory_entry& file) {
    return file.path().filename().string().starts_with("rank.");
  });
}
}  // namespace

Output::Output(const Job& job) : last_lines_(std::size_t(job.size)) {
  LineStyle lines{job.rank_labels};
  if (job.timestamps) lines.timestamp = timestamp;
  outlets_.push_back(std::make_unique<Outlet>(STDOUT_FILENO, lines));
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) outlets_.push_back(std::make_unique<Outlet>(STDERR_FILENO, lines));
  own_stream_ = outlets_.back()->mixer.add_stream(-1);
  if (!job.output_folder.empty()) choose_folder(job.output_folder);
}

void Output::choose_folder(const std::string& folder) {
  folder_ = folder;
  for (int number = 2; !make_unused(folder_); number++) folder_ = text(folder, "/", number);
  if (folder_ != folder) print(text(folder, " has the output of an earlier run; this run writes to ", folder_));
}

Output::Ends Output::add_rank(int rank) {
  Ends ends;
  last_lines_.resize(std::max(last_lines_.size(), std::size_t(rank) + 1));
  const bool separate = outlets_.size() > 1 || !folder_.empty();
  ends.out = add_stream(rank, *outlets_.front(), ".out", !separate);
  if (separate) ends.err = add_stream(rank, *outlets_.back(), ".err", true);
  return ends;
}

Descriptor Output::add_stream(int rank, Outlet& outlet, const char* extension, bool has_errors) {
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.read);
  auto stream = std::make_unique<Stream>();
  stream->from = std::move(pipe.read);
  stream->outlet = &outlet;
  stream->id = outlet.mixer.add_stream(rank);
  stream->rank = rank;
  stream->has_errors = has_errors;
  if (!folder_.empty()) {
    stream->file_name = text(folder_, "/rank.", rank, extension);
    stream->file = Descriptor(open(stream->file_name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!stream->file) throw system_error("opening " + stream->file_name, ErrorCode::file);
  }
  streams_.push_back(std::move(stream));
  return std::move(pipe.write);
}

void Output::print(const std::string& sentence) {
  outlets_.back()->mixer.feed(own_stream_, "anello: " + sentence + "\n", now());
}

void Output::print_last_lines(int rank) {
  const std::vector<std::string> lines = last_lines_[std::size_t(rank)].lines();
  const auto errors =
      std::ranges::find_if(streams_, [rank](const auto& stream) { return stream->rank == rank && stream->has_errors; });
  if (lines.empty() || !out_of_sight((*errors)->last_line)) return;
  print(text("the last lines of rank ", rank, ":"));
  for (const std::string& line : lines) print("| " + line);
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

void Output::end_line(int rank) {
  constexpr int kMaxReads = 4;  // another process may hold the pipe, and never stop writing
  for (const auto& stream : streams_) {
    if (stream->rank != rank) continue;
    for (int i = 0; i < kMaxReads && stream->from && read_some(*stream); i++) continue;
    if (stream->from && stream->last_byte != '\n') take(*stream, "\n");
  }
}

// Returns true if there may be more to read.
bool Output::read_some(Stream& stream) {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = read(stream.from.get(), bytes.data(), bytes.size());
  if (got > 0) {
    take(stream, {bytes.data(), std::size_t(got)});
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.from.close();
    stream.outlet->mixer.end(stream.id, now());
  }
  return got > 0;
}

void Output::take(Stream& stream, std::string_view bytes) {
  lines_ += std::uint64_t(std::ranges::count(bytes, '\n'));
  stream.last_line = lines_;
  stream.last_byte = bytes.back();
  if (stream.has_errors) last_lines_[std::size_t(stream.rank)].feed(bytes);
  write_file(stream, bytes);
  stream.outlet->mixer.feed(stream.id, bytes, now());
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
