// A process of a job that uses its process manager's key-value space: key_values pmi|pmix [fail] [twice] [fork]
// [vanish]. Each process puts a value, and prints the values of all. `fail`: first makes a start that fails before it
// uses its space; `twice`: does everything again in a second space; `fork`: does everything also in a forked process;
// `vanish`: ends without exit().
#include <sys/wait.h>
#include <unistd.h>
#include <anello/error.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "rendezvous/join/pmi.hpp"
#include "rendezvous/join/pmix.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::seconds;

std::unique_ptr<KeyValueSpace> open(const std::string& protocol) {
  return protocol == "pmi" ? open_pmi(seconds(20)) : open_pmix(seconds(20));
}

int exchange(const std::string& protocol) {
  const auto space = open(protocol);
  if (!space) return std::puts("no process manager"), 3;
  const std::string value = text("value-of-", space->rank(), "-", std::string(200, 'x'));
  space->put(text("rank-", space->rank()), value);
  space->fence();
  std::string line = text("rank ", space->rank(), " of ", space->size(), " in ", space->name(), ":");
  for (int rank = 0; rank < space->size(); rank++) {
    const std::string found = space->get(text("rank-", rank));
    line += text(" ", found == text("value-of-", rank, "-", std::string(200, 'x')) ? std::to_string(rank) : "wrong");
  }
  try {
    space->get("nothing");
  } catch (const Error& error) {
    line += error.code() == ErrorCode::protocol ? "; no 'nothing'" : error.what();
  }
  space->fence();
  return std::printf("%s\n", line.c_str()), std::fflush(stdout), 0;
}

int in_forked_process(const std::string& protocol) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      std::exit(exchange(protocol));
    } catch (const Error& error) {
      std::printf("forked: %s\n", error.what());
      std::exit(0);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace
}  // namespace anello::rendezvous

int main(int argc, char** argv) {
  using namespace anello::rendezvous;
  const std::string protocol = argc > 1 ? argv[1] : "";
  const std::set<std::string> how(argv + (argc > 1 ? 2 : 1), argv + argc);
  try {
    if (how.contains("fail")) open(protocol);
    int code = exchange(protocol);
    if (how.contains("twice")) code += exchange(protocol);
    if (how.contains("fork")) code += in_forked_process(protocol);
    if (how.contains("vanish")) _exit(code);
    return code;
  } catch (const anello::Error& error) {
    std::printf("error: %s\n", error.what());
    return 1;
  }
}
