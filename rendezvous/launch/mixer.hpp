// Many streams into one, line by line: each line whole, behind its rank's label, in its stream's order. Pure: bytes and
// times in, bytes out. Owned by the launcher's loop.
//
// What is kept in memory is bounded: 64 KiB a stream, and what one read brings. A line that grows longer is passed on
// as it comes, and nobody else speaks until it ends (it has the *floor*); if nothing comes of it for a second while
// others wait, it is broken in two. A long line of carriage returns (a progress bar) is broken at a return instead.
//
// On a terminal only the state of a line after its last carriage return is shown, and the unfinished line of rank 0
// (the *tail*: a progress bar, a prompt) stands below all else: lifted where a line must be written, then drawn again.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

struct TerminalStyle {
  bool terminal = false;
  bool colour = false;
  int columns = 80;  // of the terminal
};

std::string rank_label(int rank);  // "[3] "

class Mixer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit Mixer(const TerminalStyle& look) : look_(look) {}

  int add_stream(int rank);  // -1: the launcher's own, without a label
  void feed(int stream, std::string_view bytes, TimePoint now);
  void end(int stream, TimePoint now);  // its last line is a line even if nothing ends it
  void line_typed();                    // by the user, behind the tail if there is one: that line is finished
  bool accepts(int stream) const;       // false: what it has must be heard before it may bring more
  void tick(TimePoint now);
  std::optional<TimePoint> next_tick() const;

  std::string& out() { return out_; }  // for the caller to take from the front

 private:
  struct Stream {
    std::string label;
    bool may_draw;
    std::string pending = {};
  };
  void advance(int stream, TimePoint now);
  void advance_one(int stream, TimePoint now);
  bool pass_floor(Stream& stream, TimePoint now);
  void take_lines(Stream& stream);
  void keep_rest(int stream, TimePoint now);
  void take_floor(int stream, TimePoint now);
  bool someone_waits() const;
  std::string_view shown(std::string_view line) const;
  bool can_be_tail(int stream) const;
  void lift_tail();
  void draw_tail();

  TerminalStyle look_;
  std::vector<Stream> streams_;
  std::string out_;
  int floor_ = -1, tail_ = -1;  // streams
  TimePoint floor_used_{};
  std::string tail_drawn_;  // what the screen shows of the tail
};

}  // namespace anello::launch
