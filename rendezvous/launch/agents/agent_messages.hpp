// The messages between the launcher and its agents on other hosts. They go over the connection that the agent has made.
// Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace anello::launch {

// The comment at each kind names the fields that it uses.
struct AgentMessage {
  enum class Kind : std::uint8_t {
    // to the agent
    start = 1,     // number: the rendezvous's port; bytes: the rendezvous's host
    find_master,   // bytes: an address of this host that other hosts reach; empty: the connection's address
    order,         // number: Order::Kind; value and rank: as in Order
    input,         // bytes: the next bytes of rank 0's standard input; empty: the input has ended
    output_taken,  // number: the stream; value: how many more bytes of this stream the agent may send
    question,      // checks whether the agent still answers
    // both ways
    master,  // bytes: the encoded Master; sent to the agent before `start`
    // to the launcher
    cores,        // value: thousandths of cores that ranks on the agent's host may use; the agent's first message
    report,       // number: Report::Kind; rank and pid: as in Report; value: Report's `status`
    last_word,    // bytes: the encoded LastWord
    output,       // number: the stream; bytes: the next bytes of this stream; empty: the stream has ended
    input_taken,  // value: how many more bytes of rank 0's standard input the launcher may send
    answer,       // the agent's answer to `question`
    none_left,  // no process of a rank is left on the agent's host; from now on the agent sends only output and `done`
    failed,     // bytes: why the agent cannot go on
    done,       // the last message; if the connection ends without it, the agent was ended
  };
  Kind kind;
  std::int32_t number = 0, rank = -1, pid = -1, value = 0;
  std::string bytes = {};
};
std::string encode(const AgentMessage& message);
AgentMessage decode_message(std::string_view bytes);  // throws Error{protocol}

// The number of a stream: two for each rank of the host.
constexpr int output_stream(int local_rank) {
  return 2 * local_rank;
}
constexpr int error_stream(int local_rank) {
  return 2 * local_rank + 1;
}

}  // namespace anello::launch
