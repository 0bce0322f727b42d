// Merges the streams of the ranks into one stream, line by line. Lines are not mixed, begin with their rank's label,
// and keep the order of their stream. Pure: bytes and times in, bytes out. Owned by the launcher's loop.
//
// Memory is bounded: 64 KiB per stream, plus the bytes of one read. A longer line is passed on as it arrives, and no
// other stream is shown until that line ends: its stream has the *floor*. If nothing more of the line arrives for a
// second while other streams wait, a line break is inserted. A long line with carriage returns (a progress bar) is
// broken at one of them.
//
// On a terminal, only the part of a line after its last carriage return is shown. The unfinished line of rank 0 (the
// *tail*: a progress bar or a prompt) is drawn below all other lines. It is erased before a line is written, and drawn
// again after that line.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

struct TerminalStyle {
  bool terminal = false;
  bool colour = false;
  int columns = 80;  // width of the terminal
};

// The texts that stand before each line.
struct LineStyle {
  bool rank_labels = true;
  std::function<std::string(std::chrono::steady_clock::time_point)> timestamp = {};  // empty: none
};

std::string rank_label(int rank);  // "[3] "
// Returns the part of a line that a terminal shows: the part after its last carriage return. A carriage return at the
// end does not count.
std::string_view visible_part(std::string_view line);

class Mixer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit Mixer(const TerminalStyle& style, LineStyle lines = {}) : style_(style), lines_(std::move(lines)) {}

  int add_stream(int rank);  // -1: the launcher's own messages, without a label
  void feed(int stream, std::string_view bytes, TimePoint now);
  // Completes the stream's last line, even if it has no line break. If there are no labels and no terminal, adds no
  // line break.
  void end(int stream, TimePoint now);
  void line_typed();               // call when the user has typed a line; this ends the tail, if there is one
  bool accepts(int stream) const;  // do not call feed() for the stream while this is false
  void tick(TimePoint now);
  std::optional<TimePoint> next_tick() const;

  std::string& out() { return out_; }  // the caller removes from the front the bytes that it has written

 private:
  struct Stream {
    std::string rank_label;
    bool may_draw;
    std::string timestamp = {};  // when the newest bytes of `pending` arrived
    std::string pending = {};
    bool break_added = false;  // the last line break in `pending` was added here, not written by the program

    std::string label() const { return timestamp + rank_label; }
  };
  void advance(int stream, TimePoint now);
  void advance_one(int stream, TimePoint now);
  bool pass_floor(Stream& stream, TimePoint now);
  void begin_line();
  void end_line(Stream& stream, bool last);
  void take_lines(Stream& stream);
  void keep_rest(int stream, TimePoint now);
  void take_floor(int stream, TimePoint now);
  bool full() const;
  bool others_wait() const;
  std::string_view shown(std::string_view line) const;
  bool can_be_tail(int stream) const;
  void lift_tail();
  void draw_tail();

  TerminalStyle style_;
  LineStyle lines_;
  std::vector<Stream> streams_;
  std::string out_;
  bool owes_break_ = false;     // if there is a next line, a line break is written before it
  int floor_ = -1, tail_ = -1;  // numbers of streams; -1: none
  TimePoint floor_used_{};
  bool was_full_ = false;   // true if the output was full at the last tick
  std::string tail_drawn_;  // the part of the tail that the terminal shows
};

}  // namespace anello::launch
