// Copies the output of ranks from their pipes to the launcher's standard output and error, and with --output also to a
// file for each rank and stream. Reads only as fast as the output can be written. Owned by the launcher's loop.
//
// If standard output and error are the same terminal or file, and --output is not used, a rank has one pipe for both.
// This keeps their order.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"
#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/output/last_lines.hpp"
#include "rendezvous/launch/output/mixer.hpp"
#include "rendezvous/launch/output/sink.hpp"

namespace anello::launch {

class Output {
 public:
  // Makes the folder of --output. If the folder has output of an earlier run, keeps this output: then this run writes
  // to the first of the subfolders 2, 3, ... that has no output, and a message says so.
  explicit Output(const Job& job);

  struct Ends {
    Descriptor out, err;  // without `err`: the same pipe as `out`
  };
  Ends add_rank(int rank);  // returns the ends into which the rank writes

  void print(const std::string& sentence);  // a message of the launcher, to standard error
  // lines(): the number of lines that the ranks have written so far. out_of_sight(): true if a screenful of lines has
  // followed `line`.
  std::uint64_t lines() const { return lines_; }
  bool out_of_sight(std::uint64_t line) const { return lines_ - line >= kScreenLines; }
  // If the last lines of a rank's standard error are out of sight, prints them again.
  void print_last_lines(int rank);
  void line_typed();  // call when the user has typed a line, because the terminal then begins a new line
  void watch(PollSet& polls);
  void tick();
  // Call this if a process has ended, and another process will write to the same pipes. Reads the bytes that are left,
  // and ends the last line.
  void end_line(int rank);
  void close_streams();         // stops reading streams that are still open
  bool streams_closed() const;  // no more output can arrive
  bool written() const;         // all output has been written
  bool reader_gone() const;
  std::string failure() const;  // why output is lost; empty: no output is lost

 private:
  static constexpr std::uint64_t kScreenLines = 24;
  struct Outlet {
    Outlet(int fd, const LineStyle& lines) : mixer(terminal_style(fd), lines), sink(fd) {}
    Mixer mixer;
    Sink sink;
  };
  struct Stream {
    Descriptor from, file;
    std::string file_name;
    Outlet* outlet;
    int id;  // number of the stream in its outlet's mixer
    int rank;
    bool has_errors;              // true if it carries the standard error
    std::uint64_t last_line = 0;  // the number of the stream's newest line among the lines of all ranks
    char last_byte = '\n';
  };
  void choose_folder(const std::string& folder);
  Descriptor add_stream(int rank, Outlet& outlet, const char* extension, bool has_errors);
  bool read_some(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void write_file(Stream& stream, std::string_view bytes);

  std::string folder_;
  std::vector<std::unique_ptr<Outlet>> outlets_;  // one for standard output; a second if errors go elsewhere
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<LastLines> last_lines_;  // by rank
  std::uint64_t lines_ = 0;
  int own_stream_;
  std::string file_failure_;
};

}  // namespace anello::launch
