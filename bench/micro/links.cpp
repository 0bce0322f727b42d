// A link by itself, over a pair of loopback sockets: how long a message takes there and back, and how much one thread
// moves when it drives both ends.
#include <benchmark/benchmark.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ring/net/tcp_link.hpp"

namespace anello {
namespace {

using asio::ip::tcp;

struct LinkPair {
  LinkPair() {
    tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket dialled(context);
    dialled.connect(acceptor.local_endpoint());
    tcp::socket accepted = acceptor.accept();
    for (tcp::socket* socket : {&dialled, &accepted}) socket->set_option(tcp::no_delay(true));
    a = std::make_unique<TcpLink>(std::move(dialled));
    b = std::make_unique<TcpLink>(std::move(accepted));
  }
  asio::io_context context;
  std::unique_ptr<Link> a, b;
};

bool send_part(Link& link, ConstBytes& left) {
  const std::size_t sent = link.send_from({&left, 1});
  left = left.subspan(sent);
  return left.empty();
}
bool receive_part(Link& link, Bytes& left) {
  const std::size_t got = link.recv_into({&left, 1});
  left = left.subspan(got);
  return left.empty();
}
void send_all(Link& link, ConstBytes bytes) {
  while (!send_part(link, bytes)) std::this_thread::yield();
}
void receive_all(Link& link, Bytes bytes) {
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
  for (auto _ : state) {
    ConstBytes a_out(from), b_out(from);
    Bytes a_in(to), b_in(to);
    for (bool done = false; !done;) {
      done = send_part(*pair.a, a_out);
      done &= receive_part(*pair.b, b_in);
      done &= send_part(*pair.b, b_out);
      done &= receive_part(*pair.a, a_in);
    }
  }
  state.SetBytesProcessed(std::int64_t(state.iterations()) * 2 * state.range(0));
}
BENCHMARK(link_both_ways)->Arg(64 << 10)->Arg(1 << 20)->Arg(32 << 20)->UseRealTime();

}  // namespace
}  // namespace anello
