// The machines in a simulation: a few numbers, given by flags or measured (calibrate.hpp). All hosts are equal, and
// each has ranks_per_host ranks. Between two hosts, only their network interfaces limit the rate. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace CLI {
class App;
}

namespace anello::bench {

struct Cluster {
  int ranks_per_host = 1;  // the ranks of a host have consecutive numbers
  int cores = 0;           // cores of a host; 0: one core for each of its ranks
  bool memory = false;     // ranks of a host share memory, and reduce data in the sender's memory

  double network_latency_us = 15;  // latency between hosts
  double network_rate = 3125;      // rate of a host's interface, in each direction; 25 Gbit/s
  double local_latency_us = 1;     // latency within a host
  // Rate between two ranks of a host, in each direction; the cores limit the rate too.
  double local_rate = std::numeric_limits<double>::infinity();
  double message_us = 1;      // a core's time for each message, once at the sender and once at the receiver
  double copy_rate = 15e3;    // rate at which a core moves bytes into a link or out of it
  double reduce_rate = 20e3;  // rate at which a core reduces, in bytes of one operand
  double switch_us = 2;       // a core's time to switch to another rank
  std::uint64_t segment_bytes = 512 << 10;  // maximum bytes that a rank moves at once
  std::uint64_t grain_bytes = 16 << 10;     // minimum bytes that a rank moves at once while more are on their way

  int cores_used() const { return cores == 0 || cores > ranks_per_host ? ranks_per_host : cores; }
  bool oversubscribed() const { return cores_used() < ranks_per_host; }
  bool on_one_host(int a, int b) const { return a / ranks_per_host == b / ranks_per_host; }
};

// Adds the flags. Parsing the command line fills `cluster`; a wrong value ends the parsing with Error{configuration}.
void add_flags(CLI::App& command, Cluster& cluster);

std::string flags_of(const Cluster& cluster);  // returns flags in the form that add_flags() reads
nlohmann::ordered_json to_json(const Cluster& cluster);

}  // namespace anello::bench
