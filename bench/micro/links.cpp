// Measures a single link over a pair of loopback sockets: the time of a round trip, and the rate when one thread drives
// both ends.
#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "bench/micro/link_pair.hpp"

namespace anello {
namespace {

using bench::LinkPair;
using bench::move_both_ways;
using bench::receive_part;
using bench::send_part;

void send_all(link::Link& link, ConstBytes bytes) {
  while (!send_part(link, bytes)) std::this_thread::yield();
}
void receive_all(link::Link& link, Bytes bytes) {
  while (!receive_part(link, bytes)) std::this_thread::yield();
}

void link_round_trip(benchmark::State& state) {
  LinkPair pair;
  std::vector<std::byte> here(std::size_t(state.range(0))), there(here.size());
  std::jthread echo([&, rounds = state.max_iterations] {
    for (benchmark::IterationCount i = 0; i < rounds; i++) {
      receive_all(*pair.b, there);
      send_all(*pair.b, there);
    }
  });
  for (auto _ : state) {
    send_all(*pair.a, here);
    receive_all(*pair.a, here);
  }
}
BENCHMARK(link_round_trip)->Arg(4)->Arg(1 << 10)->Arg(64 << 10)->Iterations(2000)->UseRealTime();

void link_both_ways(benchmark::State& state) {
  LinkPair pair;
  const std::vector<std::byte> from(std::size_t(state.range(0)));
  std::vector<std::byte> to(from.size());
  for (auto _ : state) move_both_ways(pair, from, to);
  state.SetBytesProcessed(std::int64_t(state.iterations()) * 2 * state.range(0));
}
BENCHMARK(link_both_ways)->Arg(64 << 10)->Arg(1 << 20)->Arg(32 << 20)->UseRealTime();

}  // namespace
}  // namespace anello
