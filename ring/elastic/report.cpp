#include "ring/elastic/report.hpp"

#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/elastic/gather.hpp"

namespace anello::elastic {
namespace {

std::string kind_of(const Entry& entry) {
  return entry.is_small() ? "small" : text(entry.memory.size(), " bytes", entry.own ? " of its own" : "");
}

}  // namespace

std::vector<group::NamedValue> manifest_of(const Contents& state, bool verify) {
  std::vector<group::NamedValue> manifest{{"verification of the state", verify ? "on" : "off"}};
  for (const Entry& each : state.entries)
    manifest.push_back({entry_name(manifest.size() - 1), text("'", each.name, "' (", kind_of(each), ")")});
  return manifest;
}

std::vector<group::NamedValue> manifest_of(std::string_view lines) {
  std::vector<group::NamedValue> manifest{{"verification of the state", "by the program"}};
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    manifest.push_back({entry_name(manifest.size() - 1), std::string(lines.substr(at, end - at))});
    at = end + 1;
  }
  return manifest;
}

std::string entry_name(std::size_t number) {
  return text("entry ", number, " of the state");
}

Report report_of(const Contents& state, const std::vector<group::NamedValue>& manifest) {
  Writer all;
  for (const group::NamedValue& each : manifest) all.str(each.value);
  return {state.holds, state.clean, state.revision, Hash::of(std::as_bytes(std::span(all.bytes())))};
}

Reports gather_reports(World& world, const Report& mine, bool begun) {
  constexpr std::string_view kWhat = "elastic reports";
  Writer out;
  out.u8(mine.holds).u8(mine.clean).u8(begun).u64(mine.revision);
  encode(out, mine.manifest);
  Reports reports;
  for (const std::string& each : gather(world, out.bytes(), {.name = kWhat})) {
    Reader in(kWhat, each);
    Report& its = reports.by_rank.emplace_back();
    its.holds = in.u8() != 0;
    its.clean = in.u8() != 0;
    reports.begun |= in.u8() != 0;
    its.revision = in.u64();
    its.manifest = decode_hash(in);
  }
  return reports;
}

}  // namespace anello::elastic
