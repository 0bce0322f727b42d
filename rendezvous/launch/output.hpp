// What ranks write, from their pipes to our standard output and error, and to a file a rank and stream where a folder
// is given. Reads no faster than the reader downstream. Owned by the launcher's loop.
//
// Where both standard descriptors are the same terminal or file (and no files are wanted) a rank has one pipe for both,
// so that the order between its output and its errors is kept too.
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
  explicit Output(const std::string& folder);  // made if need be; empty: none

  struct Ends {
    Descriptor out, err;  // no err: the same as out
  };
  Ends add_rank(int rank);  // returns the ends that the rank writes to

  void say(const std::string& sentence);  // the launcher's own, to standard error
  void line_typed();                      // on the terminal, which has begun a new line then
  void watch(PollSet& polls);
  void tick();
  void close_streams();         // whatever is still open, though nobody should be there to write
  bool streams_closed() const;  // nothing more will come
  bool written() const;         // nothing is left to write
  bool reader_gone() const;
  std::string failure() const;  // why output is being lost; empty: it is not

 private:
  struct Outlet {
    explicit Outlet(int fd) : mixer(look_of(fd)), sink(fd) {}
    Mixer mixer;
    Sink sink;
  };
  struct Stream {
    Descriptor from, file;
    std::string file_name;
    Outlet* outlet;
    int id;  // in its outlet's mixer
  };
  Descriptor add_stream(int rank, Outlet& outlet, const char* extension);
  void read_some(Stream& stream);
  void keep(Stream& stream, std::string_view bytes);

  std::string folder_;
  std::vector<std::unique_ptr<Outlet>> outlets_;  // standard output's, and error's where it is another
  std::vector<std::unique_ptr<Stream>> streams_;
  int own_stream_;
  std::string file_failure_;
};

}  // namespace anello::launch
