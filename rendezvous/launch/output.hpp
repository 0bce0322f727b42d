// Copies the output of ranks from their pipes to the launcher's standard output and error, and with --output also to a
// file per rank and stream. Reads only as fast as the output can be written. Owned by the launcher's loop.
//
// If standard output and error are the same terminal or file, and --output is not used, a rank has one pipe for both,
// so that their order is kept.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/job.hpp"
#include "rendezvous/launch/mixer.hpp"
#include "rendezvous/launch/poll_set.hpp"
#include "rendezvous/launch/sink.hpp"

namespace anello::launch {

class Output {
 public:
  explicit Output(const std::string& folder);  // for --output; is created if it does not exist; empty: no files

  struct Ends {
    Descriptor out, err;  // without `err`: the same pipe as `out`
  };
  Ends add_rank(int rank);  // returns the ends into which the rank writes

  void print(const std::string& sentence);  // a message of the launcher, to standard error
  void line_typed();                        // the user has typed a line, so the terminal is at the start of a new one
  void watch(PollSet& polls);
  void tick();
  void close_streams();         // stops reading streams that are still open
  bool streams_closed() const;  // no more output can arrive
  bool written() const;         // all output has been written
  bool reader_gone() const;
  std::string failure() const;  // why output is lost; empty: none is

 private:
  struct Outlet {
    explicit Outlet(int fd) : mixer(terminal_style(fd)), sink(fd) {}
    Mixer mixer;
    Sink sink;
  };
  struct Stream {
    Descriptor from, file;
    std::string file_name;
    Outlet* outlet;
    int id;  // in the mixer of its outlet
  };
  Descriptor add_stream(int rank, Outlet& outlet, const char* extension);
  void read_some(Stream& stream);
  void write_file(Stream& stream, std::string_view bytes);

  std::string folder_;
  std::vector<std::unique_ptr<Outlet>> outlets_;  // of standard output, and of standard error if that is another file
  std::vector<std::unique_ptr<Stream>> streams_;
  int own_stream_;
  std::string file_failure_;
};

}  // namespace anello::launch
