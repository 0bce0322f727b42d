#include "ring/net/addresses.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>

namespace anello::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::configuration);
    return error.what();
  }
  return "nothing thrown";
}

TEST(HostPort, ReadsNamesAndBothFamilies) {
  const auto shown = [](std::string_view text) {
    const HostPort parsed = parse_host_port("X", text);
    return parsed.host + " " + std::to_string(parsed.port);
  };
  EXPECT_EQ(shown("node-1.example:4000"), "node-1.example 4000");
  EXPECT_EQ(shown("127.0.0.1:1"), "127.0.0.1 1");
  EXPECT_EQ(shown("[::1]:65535"), "::1 65535");
  EXPECT_EQ(shown("[fe80::1%lo]:80"), "fe80::1%lo 80");
}

TEST(HostPort, RefusesTheRestByItsText) {
  const auto refuse = [](const std::string& text) {
    return refusal([&] { parse_host_port("ANELLO_RENDEZVOUS", text); });
  };
  EXPECT_THAT(refuse("node"), AllOf(HasSubstr("ANELLO_RENDEZVOUS='node'"), HasSubstr("no port")));
  EXPECT_THAT(refuse(""), HasSubstr("no port"));
  EXPECT_THAT(refuse(":80"), HasSubstr("no host"));
  EXPECT_THAT(refuse("[]:80"), HasSubstr("no host"));
  EXPECT_THAT(refuse("::1:80"), HasSubstr("brackets belong around"));
  EXPECT_THAT(refuse("[node]:80"), HasSubstr("brackets belong around"));
  EXPECT_THAT(refuse("[1::2::3]:80"), HasSubstr("not an IPv6 address"));
  EXPECT_THAT(refuse("tcp://node:80"), HasSubstr("brackets belong"));
  EXPECT_THAT(refuse("no de:80"), HasSubstr("not a host's name"));
  for (const char* port : {"", "0", "65536", "-1", "8x", " 8"})
    EXPECT_THAT(refuse(std::string("node:") + port), HasSubstr("is not a whole number from 1 to 65535")) << port;
  EXPECT_THAT(refuse(std::string(256, 'a') + ":80"), HasSubstr("too long"));
}

TEST(HostPort, IsWrittenWithBracketsWhereNeeded) {
  EXPECT_EQ(host_port("10.0.0.1", 80), "10.0.0.1:80");
  EXPECT_EQ(host_port("::1", 80), "[::1]:80");
}

TEST(PortRange, HasTwoEnds) {
  EXPECT_EQ(parse_port_range("").last, 0);
  EXPECT_EQ(parse_port_range("4000-4010").first, 4000);
  EXPECT_EQ(parse_port_range("4000-4010").last, 4010);
  EXPECT_EQ(parse_port_range("4000").first, 4000);
  EXPECT_EQ(parse_port_range("4000").last, 4000);
  for (const char* text : {"-", "1-", "-1", "0-5", "1-65536", "a-b", "1-2-3", "1:2"})
    EXPECT_THAT(refusal([&] { parse_port_range(text); }), HasSubstr("ANELLO_PORT_RANGE='" + std::string(text) + "'"));
  EXPECT_THAT(refusal([] { parse_port_range("9-8"); }), HasSubstr("ends before it begins"));
}

TEST(Address, KnowsLoopback) {
  for (const char* text : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) EXPECT_TRUE(is_loopback(text)) << text;
  for (const char* text : {"10.0.0.1", "::", "0.0.0.0", "fe80::1", "localhost", "", "128.0.0.1"})
    EXPECT_FALSE(is_loopback(text)) << text;
}

TEST(Address, KnowsThisHost) {
  EXPECT_TRUE(is_local("127.0.0.1"));
  EXPECT_TRUE(is_local("::1"));
  EXPECT_FALSE(is_local("198.51.100.77"));
  EXPECT_FALSE(is_local("nonsense"));
  EXPECT_FALSE(is_local("0.0.0.0"));
  for (const Interface& one : local_interfaces()) EXPECT_TRUE(is_local(one.address)) << one.address;
}

const std::vector<Interface> kHost = {
    {"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}, {"eth0", "fe80::9%eth0"}, {"eth0", "10.0.0.9"},
    {"eth0", "fd00::9"}, {"eth10", "10.1.0.9"},     {"ib0", "192.168.0.9"},   {"lo", "::1"}};

TEST(Address, OfThisHostForOthersTheLikeliestFirst) {
  EXPECT_THAT(addresses_for_other_hosts("127.0.1.1", kHost),
              testing::ElementsAre("10.0.0.9", "10.1.0.9", "192.168.0.9", "fd00::9", "172.17.0.1"));
  EXPECT_EQ(addresses_for_other_hosts("::1", kHost).front(), "fd00::9");
  EXPECT_THAT(addresses_for_other_hosts("0.0.0.0", {{"eth0", "fd00::9"}, {"virbr0", "192.168.122.1"}}),
              testing::ElementsAre("fd00::9", "192.168.122.1"))
      << "a host whose only IPv4 address is a bridge's";
  EXPECT_THAT(addresses_for_other_hosts("127.0.0.1", {{"lo", "127.0.0.1"}, {"eth0", "169.254.3.4"}}),
              testing::IsEmpty());
}

TEST(ChooseAddress, KeepsTheRendezvousSocketsOwnWhereAdmitted) {
  EXPECT_EQ(choose_address("", "10.1.0.9", kHost), "10.1.0.9");
  EXPECT_EQ(choose_address("", "203.0.113.5", kHost), "203.0.113.5");
  EXPECT_EQ(choose_address("eth", "10.1.0.9", kHost), "10.1.0.9");
  EXPECT_EQ(choose_address("^docker", "127.0.0.1", kHost), "127.0.0.1");
}

TEST(ChooseAddress, TakesTheBestThatIsAdmitted) {
  EXPECT_EQ(choose_address("eth", "127.0.0.1", kHost), "10.0.0.9");
  EXPECT_EQ(choose_address("eth", "::1", kHost), "fd00::9");
  EXPECT_EQ(choose_address("=eth1", "10.0.0.9", {{"eth1", "fe80::1%eth1"}}), "fe80::1%eth1");
  EXPECT_EQ(choose_address("=eth10", "10.0.0.9", kHost), "10.1.0.9");
  EXPECT_EQ(choose_address("=ib0,eth10", "172.17.0.1", kHost), "10.1.0.9");
  EXPECT_EQ(choose_address("^docker,eth", "172.17.0.1", kHost), "192.168.0.9");
  EXPECT_EQ(choose_address("^=eth0,docker0", "172.17.0.1", kHost), "10.1.0.9");
  EXPECT_EQ(choose_address("lo", "10.0.0.9", kHost), "127.0.0.1");
  EXPECT_EQ(choose_address("lo", "fd00::9", kHost), "::1");
}

TEST(ChooseAddress, ListsWhatThereIsWhenNothingMatches) {
  const auto refuse = [](const char* iface) { return refusal([&] { choose_address(iface, "10.0.0.9", kHost); }); };
  EXPECT_THAT(refuse("wlan"),
              AllOf(HasSubstr("ANELLO_IFACE='wlan'"), HasSubstr("eth10 (10.1.0.9), ib0 (192.168.0.9)")));
  EXPECT_THAT(refuse("=eth"), HasSubstr("admits none"));
  EXPECT_THAT(refuse("^l,e,d,i"), HasSubstr("admits none"));
  EXPECT_THAT(refusal([] { choose_address("eth", "10.0.0.9", {}); }), HasSubstr("none is up"));
  for (const char* empty : {"^", "=", ",", "eth,", "eth,,ib", "^="})
    EXPECT_THAT(refuse(empty), HasSubstr("empty name"));
}

TEST(ChooseAddresses, TakesOneOfEachPart) {
  using testing::ElementsAre;
  EXPECT_THAT(choose_addresses("", "10.1.0.9", kHost), ElementsAre("10.1.0.9"));
  EXPECT_THAT(choose_addresses("eth", "10.1.0.9", kHost), ElementsAre("10.1.0.9"));
  EXPECT_THAT(choose_addresses("=eth0+eth10", "10.1.0.9", kHost), ElementsAre("10.0.0.9", "10.1.0.9"));
  EXPECT_THAT(choose_addresses("ib0+=eth0+eth10", "::1", kHost), ElementsAre("192.168.0.9", "fd00::9", "10.1.0.9"));
  EXPECT_EQ(choose_address("ib0+eth0", "10.1.0.9", kHost), "192.168.0.9") << "the first is the rank's own";
}

TEST(ChooseAddresses, RefusesWhatIsNotThereOrThereTwice) {
  const auto refuse = [](const std::string& iface) {
    return refusal([&] { choose_addresses(iface, "10.0.0.9", kHost); });
  };
  EXPECT_THAT(refuse("eth0+wlan"),
              AllOf(HasSubstr("ANELLO_IFACE='wlan'"), HasSubstr("eth10 (10.1.0.9), ib0 (192.168.0.9)")));
  EXPECT_THAT(refuse("=eth0+eth0"), AllOf(HasSubstr("ANELLO_IFACE='=eth0+eth0'"), HasSubstr("10.0.0.9 twice")));
  for (const char* empty : {"+", "eth0+", "+eth0", "eth0++ib0"})
    EXPECT_THAT(refuse(empty), HasSubstr("has an empty name at a +")) << empty;
}

}  // namespace
}  // namespace anello::net
