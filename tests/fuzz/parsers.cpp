#include "tests/fuzz/parsers.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "rendezvous/join/pmi_message.hpp"
#include "rendezvous/protocol/protocol.hpp"
#include "ring/algorithms/tuning_table.hpp"
#include "ring/base/signature.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/failure/failure_detector.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/handshake.hpp"
#include "ring/world/peer_info.hpp"
#include "tests/fuzz/promise.hpp"

namespace anello::fuzz {
namespace {

constexpr int kWorld = 4;

}  // namespace

void control(std::string_view bytes) {
  expect_value_or_error<ErrorCode::protocol>([&] {
    const std::string again = encode(failure::decode_control_message(bytes, kWorld));
    require(again == bytes);
  });
  failure::FailureDetector detector(1, std::vector<std::string>(kWorld, "host"),
                                    [](auto, auto) { return std::nullopt; });
  expect_value_or_error<ErrorCode::protocol>([&] { detector.receive(bytes, failure::FailureDetector::Time(0)); });
  detector.tick(failure::FailureDetector::Time(1'000'000));
  for (const std::string& message : detector.take_outbox())
    failure::decode_body(failure::decode_envelope(message, kWorld).body, kWorld);
}

void handshake(std::string_view bytes) {
  // Connections of TCP would use up all ports of loopback within seconds.
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && write(ends[0], bytes.data(), bytes.size()) >= 0);
  shutdown(ends[0], SHUT_WR);
  asio::io_context context;
  asio::ip::tcp::socket socket(context, asio::ip::tcp::v4(), ends[1]);
  const net::Credentials credentials{"job", ""};
  const auto welcomed = [&]() -> asio::awaitable<void> {
    try {
      co_await accept_handshake(socket, credentials, [](const net::Claim&) { return std::nullopt; });
    } catch (const net::HandshakeError&) {
    }
  };
  std::exception_ptr thrown;
  asio::co_spawn(context, welcomed(), [&](std::exception_ptr other) { thrown = std::move(other); });
  context.run();
  close(ends[0]);
  require(!thrown);
}

void rendezvous(std::string_view bytes) {
  using namespace anello::rendezvous;
  expect_value_or_error<ErrorCode::protocol>(
      [&] { require(encode(decode_request(encode(decode_request(bytes)))) == encode(decode_request(bytes))); });
  expect_value_or_error<ErrorCode::protocol>(
      [&] { require(encode(decode_reply(encode(decode_reply(bytes)))) == encode(decode_reply(bytes))); });
}

void pmi(std::string_view bytes) {
  using namespace anello::rendezvous;
  expect_value_or_error<ErrorCode::protocol>([&] {
    const PmiMessage message = parse_pmi_message(bytes);
    std::string again = "cmd=" + message.command;
    for (const auto& [name, value] : message.fields) again += " " + name + "=" + value;
    require(parse_pmi_message(again).fields == message.fields);
  });
}

void signature(std::string_view bytes) {
  expect_value_or_error<ErrorCode::protocol>([&] {
    const Signature read = decode_signature(bytes);
    EncodedSignature again;
    encode(read, again);
    require(std::string_view(again.data(), again.size()) == bytes);
    require(!describe(read).empty() && difference({0}, read, {1}, read).empty());
  });
}

void peer_info(std::string_view bytes) {
  expect_value_or_error<ErrorCode::protocol>([&] {
    Cores all = available_cores();
    all.unite(world::decode_peer_info(bytes).cores);
    require(all.count() >= 0);
  });
}

void addresses(std::string_view bytes) {
  expect_value_or_error<ErrorCode::configuration>([&] {
    const net::HostPort first = net::parse_host_port("fuzz", bytes);
    const net::HostPort second = net::parse_host_port("fuzz", net::host_port(first.host, first.port));
    require(first.host == second.host && first.port == second.port);
  });
  expect_value_or_error<ErrorCode::configuration>([&] {
    const net::PortRange range = net::parse_port_range(bytes);
    require(range.first <= range.last);
  });
  const std::vector<net::Interface> interfaces{{"lo", "127.0.0.1"}, {"eth0", "10.0.0.1"}, {"eth1", "fe80::1%eth1"}};
  expect_value_or_error<ErrorCode::configuration>(
      [&] { require(!choose_address(bytes, "10.0.0.1", interfaces).empty()); });
}

void table(std::string_view bytes) {
  expect_value_or_error<ErrorCode::configuration>([&] {
    std::string text;
    for (const algorithms::TableRow& row : algorithms::parse_table(bytes)) text += to_text(row);
    std::string again;
    for (const algorithms::TableRow& row : algorithms::parse_table(text)) again += to_text(row);
    require(text == again);
  });
}

}  // namespace anello::fuzz
