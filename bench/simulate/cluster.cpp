#include "bench/simulate/cluster.hpp"

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/simulate/units.hpp"
#include "bench/sizes.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

constexpr int kMaxPerHost = 1024;
constexpr std::uint64_t kMinSegment = 64;

struct Quantity {
  const char *flag, *key, *sentence;
  double Cluster::*field;
  double (*parse)(std::string_view what, std::string_view given);
  std::string (*text)(double value);
};
constexpr std::array kQuantities = {
    Quantity{"--latency", "network_latency_us", "between hosts, one way", &Cluster::network_latency_us, parse_time_us,
             time_text},
    Quantity{"--bandwidth", "network_bytes_per_us", "of a host's network interface, in each direction",
             &Cluster::network_rate, parse_rate, rate_text},
    Quantity{"--local-latency", "local_latency_us", "within a host, one way", &Cluster::local_latency_us, parse_time_us,
             time_text},
    Quantity{"--local-bandwidth", "local_bytes_per_us", "between two ranks of a host, in each direction",
             &Cluster::local_rate, parse_rate, rate_text},
    Quantity{"--message", "message_us", "a core's time for a message, at each end", &Cluster::message_us, parse_time_us,
             time_text},
    Quantity{"--copy", "copy_bytes_per_us", "rate at which a core moves bytes into or out of a link",
             &Cluster::copy_rate, parse_rate, rate_text},
    Quantity{"--reduce", "reduce_bytes_per_us", "rate at which a core reduces", &Cluster::reduce_rate, parse_rate,
             rate_text},
    Quantity{"--switch", "switch_us", "a core's time to switch to another rank", &Cluster::switch_us, parse_time_us,
             time_text},
};

void add_count(CLI::App& command, const std::string& flag, int& to, const std::string& sentence) {
  command
      .add_option_function<std::string>(
          flag, [flag, &to](const std::string& given) { to = int(parse_number(flag, given, 1, kMaxPerHost)); },
          sentence)
      ->type_name("N");
}

void add_size(CLI::App& command, const std::string& flag, std::uint64_t& to, const std::string& sentence) {
  const auto parse = [flag, &to](const std::string& given) {
    to = parse_size(flag, given);
    if (to < kMinSegment)
      throw Error(ErrorCode::configuration, text(flag, " ", given, ": at least ", kMinSegment, " bytes"));
  };
  command.add_option_function<std::string>(flag, parse, sentence)->type_name("SIZE");
}

}  // namespace

void add_flags(CLI::App& command, Cluster& cluster) {
  const Cluster defaults;
  add_count(command, "--ranks-per-host", cluster.ranks_per_host,
            "ranks that share a host, with consecutive numbers (1)");
  add_count(command, "--cores", cluster.cores, "cores of a host (one for each of its ranks)");
  command.add_flag("--memory", cluster.memory, "ranks of a host share memory, and reduce data in the sender's memory");
  for (const Quantity& each : kQuantities)
    command
        .add_option_function<std::string>(
            each.flag,
            [&each, &cluster](const std::string& given) { cluster.*each.field = each.parse(each.flag, given); },
            text(each.sentence, " (", each.text(defaults.*each.field), ")"))
        ->type_name(each.parse == parse_rate ? "RATE" : "TIME");
  add_size(command, "--segment", cluster.segment_bytes, "the most bytes that a rank moves at once (512K)");
  add_size(command, "--grain", cluster.grain_bytes,
           "the fewest bytes that a rank moves while more are on their way (16K)");
}

std::string flags_of(const Cluster& cluster) {
  std::string flags = text("--ranks-per-host ", cluster.ranks_per_host, " --cores ", cluster.cores_used());
  if (cluster.memory) flags += " --memory";
  for (const Quantity& each : kQuantities) flags += text(" ", each.flag, " ", each.text(cluster.*each.field));
  return flags + text(" --segment ", cluster.segment_bytes, " --grain ", cluster.grain_bytes);
}

nlohmann::ordered_json to_json(const Cluster& cluster) {
  nlohmann::ordered_json json = {
      {"ranks_per_host", cluster.ranks_per_host}, {"cores", cluster.cores_used()}, {"memory", cluster.memory}};
  for (const Quantity& each : kQuantities) json[each.key] = cluster.*each.field;
  json["segment_bytes"] = cluster.segment_bytes;
  json["grain_bytes"] = cluster.grain_bytes;
  return json;
}

}  // namespace anello::bench
