#include "rendezvous/launch/output/mixer.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxPending = 64 << 10, kMaxOut = 256 << 10;
constexpr std::chrono::milliseconds kMaxSilence{1000};
constexpr std::string_view kEraseLine = "\r\033[K", kEraseRest = "\033[K";

// Returns the number of columns that `text` occupies on a terminal. An escape sequence occupies no column, a UTF-8
// character one column.
int width(std::string_view text) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\033') {
      while (i + 1 < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) i++;
    } else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      columns += text[i] == '\t' ? 8 : 1;
    }
  }
  return columns;
}

}  // namespace

std::string rank_label(int rank) {
  return text("[", rank, "] ");
}

std::string_view visible_part(std::string_view line) {
  const std::size_t last = line.find_last_not_of('\r');
  if (last == std::string_view::npos) return line.substr(line.size());
  const std::size_t carriage_return = line.rfind('\r', last);
  return carriage_return == std::string_view::npos ? line : line.substr(carriage_return + 1);
}

int Mixer::add_stream(int rank) {
  const bool labelled = rank >= 0 && lines_.rank_labels;
  std::string label = labelled ? rank_label(rank) : "";
  if (style_.colour && labelled) label = text("\033[3", 1 + rank % 6, "m[", rank, "]\033[0m ");
  streams_.push_back({label, rank == 0});
  return int(streams_.size()) - 1;
}

void Mixer::feed(int stream, std::string_view bytes, TimePoint now) {
  if (lines_.timestamp) streams_[std::size_t(stream)].timestamp = lines_.timestamp(now);
  streams_[std::size_t(stream)].pending += bytes;
  advance(stream, now);
}

void Mixer::end(int stream, TimePoint now) {
  Stream& ended = streams_[std::size_t(stream)];
  if (floor_ == stream || (!ended.pending.empty() && ended.pending.back() != '\n')) {
    ended.pending += '\n';
    ended.break_added = !lines_.rank_labels && !style_.terminal;
  }
  advance(stream, now);
}

void Mixer::line_typed() {
  if (tail_ >= 0) streams_[std::size_t(tail_)].pending.clear();
  tail_ = -1;
  tail_drawn_.clear();
}

bool Mixer::accepts(int stream) const {
  const bool shown_now = floor_ < 0 || floor_ == stream;
  return !full() && (shown_now || streams_[std::size_t(stream)].pending.size() < kMaxPending);
}

bool Mixer::full() const {
  return out_.size() >= kMaxOut;
}

void Mixer::tick(TimePoint now) {
  // While the output is full, the stream that has the floor is not read. So this time does not count as silence of the
  // stream.
  if (std::exchange(was_full_, full())) floor_used_ = now;
  const auto due = next_tick();
  if (!due || now < *due) return;
  end(floor_, now);
}

std::optional<Mixer::TimePoint> Mixer::next_tick() const {
  if (floor_ < 0 || !others_wait()) return std::nullopt;
  return floor_used_ + kMaxSilence;
}

bool Mixer::others_wait() const {
  return std::ranges::any_of(streams_, [](const Stream& stream) {
    return stream.pending.size() >= kMaxPending || stream.pending.find('\n') != std::string::npos;
  });
}

void Mixer::advance(int stream, TimePoint now) {
  const bool had_floor = floor_ == stream;
  advance_one(stream, now);
  if (had_floor)
    for (int other = 0; other < int(streams_.size()); other++) advance_one(other, now);
  draw_tail();
}

void Mixer::advance_one(int id, TimePoint now) {
  Stream& stream = streams_[std::size_t(id)];
  if (floor_ >= 0 && (floor_ != id || !pass_floor(stream, now))) return;
  take_lines(stream);
  keep_rest(id, now);
}

// Passes on the bytes of the stream that has the floor. Returns true if its line has ended, so that the floor is free.
bool Mixer::pass_floor(Stream& stream, TimePoint now) {
  const std::size_t end = stream.pending.find('\n');
  const bool ended = end != std::string::npos;
  if (!stream.pending.empty()) floor_used_ = now;
  out_.append(stream.pending, 0, end);
  if (ended) {
    end_line(stream, end + 1 == stream.pending.size());
    floor_ = -1;
  }
  stream.pending.erase(0, ended ? end + 1 : end);
  return ended;
}

void Mixer::begin_line() {
  if (std::exchange(owes_break_, false)) out_ += '\n';
}

void Mixer::end_line(Stream& stream, bool last) {
  owes_break_ = last && std::exchange(stream.break_added, false);
  if (!owes_break_) out_ += '\n';
}

void Mixer::take_lines(Stream& stream) {
  std::string_view left = stream.pending;
  for (std::size_t end; (end = left.find('\n')) != std::string_view::npos; left.remove_prefix(end + 1)) {
    lift_tail();
    begin_line();
    out_.append(stream.label()).append(shown(left.substr(0, end)));
    end_line(stream, end + 1 == left.size());
  }
  stream.pending.erase(0, stream.pending.size() - left.size());
}

// Decides what happens to the bytes after the last whole line: they are drawn as the tail, or they wait, or their
// stream gets the floor, so that they are passed on at once. mixer.hpp defines tail and floor.
void Mixer::keep_rest(int id, TimePoint now) {
  Stream& stream = streams_[std::size_t(id)];
  stream.pending.erase(0, std::size_t(shown(stream.pending).data() - stream.pending.data()));
  if (stream.pending.empty()) {
    if (tail_ == id) tail_ = -1;
    return;
  }
  if (can_be_tail(id)) {
    tail_ = id;
    return;
  }
  if (tail_ == id) return take_floor(id, now);
  if (stream.pending.size() < kMaxPending) return;
  const std::size_t carriage_return = stream.pending.rfind('\r', stream.pending.size() - 2);
  if (style_.terminal || carriage_return == std::string::npos) return take_floor(id, now);
  stream.pending[carriage_return] = '\n';
  take_lines(stream);
}

void Mixer::take_floor(int id, TimePoint now) {
  Stream& stream = streams_[std::size_t(id)];
  std::string line = stream.label() + stream.pending;
  if (tail_ == id && line.starts_with(tail_drawn_))
    line.erase(0, tail_drawn_.size());
  else
    lift_tail();
  begin_line();
  if (tail_ == id) {
    tail_ = -1;
    tail_drawn_.clear();
  }
  out_ += line;
  stream.pending.clear();
  floor_ = id;
  floor_used_ = now;
}

std::string_view Mixer::shown(std::string_view line) const {
  return style_.terminal ? visible_part(line) : line;
}

bool Mixer::can_be_tail(int id) const {
  const Stream& stream = streams_[std::size_t(id)];
  return style_.terminal && stream.may_draw && (tail_ < 0 || tail_ == id) && stream.pending.size() < kMaxPending &&
         width(stream.label()) + width(stream.pending) < style_.columns;
}

void Mixer::lift_tail() {
  if (!tail_drawn_.empty()) out_ += kEraseLine;
  tail_drawn_.clear();
}

void Mixer::draw_tail() {
  if (tail_ < 0 || floor_ >= 0) return;
  const Stream& stream = streams_[std::size_t(tail_)];
  const std::string_view line = std::string_view(stream.pending).substr(0, stream.pending.find_last_not_of('\r') + 1);
  const std::string wanted = stream.label() + std::string(line);
  if (wanted.starts_with(tail_drawn_))
    out_.append(wanted, tail_drawn_.size());
  else
    out_.append("\r").append(wanted).append(kEraseRest);
  tail_drawn_ = wanted;
}

}  // namespace anello::launch
