#include "ring/trace/chrome.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <tuple>

#include "ring/trace/json_text.hpp"

namespace anello::trace {
namespace {

constexpr std::array<std::string_view, 6> kWhat{"send", "receive", "reduce", "fold", "scale", "sleep"};

class Writer {
 public:
  Writer(const Recording& recording, const Traced& traced, const TickClock::Scale& scale, bool very_first,
         const std::function<void(std::string_view)>& write)
      : recording_(recording), traced_(traced), scale_(scale), first_(very_first), write_(write) {}

  void all() {
    process();
    for (const Recording::Phase& phase : recording_.phases) {
      const int row = row_of({0, 0, int(phases_.try_emplace(phase.thread, phases_.size()).first->second)}, "program");
      complete(row, phase.name, phase.begin, phase.end, "");
    }
    for (const Recording::Operation& operation : recording_.operations) one(operation);
    flush();
  }

 private:
  // Identifies and orders rows: the group (0 for phases), the kind of row, the number in that kind.
  using Row = std::tuple<std::uint64_t, int, int>;
  static constexpr std::size_t kPieceBytes = 64 << 10;
  enum RowKind { kProgram, kOperations, kLocal, kSend, kReceive };

  void process() {
    std::ostringstream out;
    out << "\"ph\":\"M\",\"name\":\"process_name\",\"tid\":0,\"args\":{\"name\":"
        << json_text("rank " + std::to_string(traced_.rank) + " on " + std::string(traced_.host)) << "}";
    event(out.str());
    event("\"ph\":\"M\",\"name\":\"process_sort_index\",\"tid\":0,\"args\":{\"sort_index\":" +
          std::to_string(traced_.rank) + "}");
    const auto within = std::max(traced_.alignment.first.within_ns, traced_.alignment.last.within_ns);
    event("\"ph\":\"M\",\"name\":\"process_labels\",\"tid\":0,\"args\":{\"labels\":\"clock within " +
          microseconds(within) + " us\"}");
    if (recording_.left_out == 0) return;
    event("\"ph\":\"I\",\"s\":\"p\",\"tid\":0,\"ts\":0,\"name\":\"" + std::to_string(recording_.left_out) +
          " operations and phases are left out: there was no room\"");
  }

  int row_of(const Row& row, const std::string& name) {
    const auto [found, fresh] = rows_.try_emplace(row, int(rows_.size()) + 1);
    if (fresh) {
      const std::string tid = std::to_string(found->second);
      event("\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":" + tid + ",\"args\":{\"name\":" + json_text(name) + "}");
      event("\"ph\":\"M\",\"name\":\"thread_sort_index\",\"tid\":" + tid +
            ",\"args\":{\"sort_index\":" + std::to_string(place_of(row)) + "}");
    }
    return found->second;
  }

  // Orders rows: groups in the order of their first appearance; within a group first the operations, then local work,
  // then sends and receives by peer.
  int place_of(const Row& row) {
    const auto& [group, kind, number] = row;
    const auto nth = places_.try_emplace(group, places_.size()).first->second;
    constexpr int kGroup = 1 << 22, kKind = 1 << 19;
    return int(nth) * kGroup + kind * kKind + number;
  }

  void one(const Recording::Operation& operation) {
    const Record& record = operation.record;
    const Recording::Group& group = recording_.groups.at(record.signature.group);
    const std::string what = describe(record.signature);
    const std::string name = record.title().empty() ? what : std::string(record.title());
    const int row = row_of({record.signature.group, kOperations, 0}, group.name);
    queued(row, what, record);
    complete(row, name, record.begun, record.ended, "\"operation\":" + json_text(what));
    for (std::size_t k = 0; k < operation.spans; k++) step(record, group, recording_.spans[operation.first_span + k]);
  }

  // Uses asynchronous events, because many operations may be queued at once, and complete events of one row must not
  // overlap.
  void queued(int row, const std::string& what, const Record& record) {
    const std::string common = "\"cat\":\"queued\",\"name\":" + json_text("queued: " + what) +
                               ",\"id\":" + std::to_string(++queued_) + ",\"tid\":" + std::to_string(row);
    event("\"ph\":\"b\"," + common + ",\"ts\":" + microseconds(ns(record.queued)));
    event("\"ph\":\"e\"," + common + ",\"ts\":" + microseconds(ns(record.begun)));
  }

  void step(const Record& record, const Recording::Group& group, const Span& span) {
    const std::uint64_t id = record.signature.group;
    const std::string peer = std::to_string(span.peer);
    const std::string where = id == 0 ? "" : " in " + group.name;
    int row = 0;
    if (span.what == Span::What::send)
      row = row_of({id, kSend, span.peer}, "to rank " + peer + where);
    else if (span.peer >= 0)
      row = row_of({id, kReceive, span.peer}, "from rank " + peer + where);
    else
      row = row_of({id, kLocal, 0}, "local work" + where);
    std::ostringstream args;
    if (span.what != Span::What::sleep) args << "\"round\":" << span.round << ",\"bytes\":" << span.bytes << ",";
    args << "\"sequence\":" << record.signature.sequence;
    complete(row, std::string(kWhat[std::size_t(span.what)]), span.begin, span.end, args.str());
  }

  void complete(int row, const std::string& name, Ticks begin, Ticks end, const std::string& args) {
    const std::int64_t from = ns(begin), to = std::max(from, ns(end));
    event("\"ph\":\"X\",\"name\":" + json_text(name) + ",\"tid\":" + std::to_string(row) +
          ",\"ts\":" + microseconds(from) + ",\"dur\":" + microseconds(to - from) + ",\"args\":{" + args + "}");
  }

  std::int64_t ns(Ticks at) const { return traced_.alignment.translate(scale_.steady_ns(at)) - traced_.zero_ns; }

  static std::string microseconds(std::int64_t ns) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.3f", double(ns) / 1000);
    return digits.data();
  }

  void event(const std::string& fields) {
    piece_ += first_ ? "{\"pid\":" : ",\n{\"pid\":";
    first_ = false;
    ((piece_ += std::to_string(traced_.rank)) += ",") += fields;
    piece_ += "}";
    if (piece_.size() >= kPieceBytes) flush();
  }
  void flush() {
    if (!piece_.empty()) write_(piece_);
    piece_.clear();
  }

  const Recording& recording_;
  const Traced& traced_;
  const TickClock::Scale& scale_;
  bool first_;
  const std::function<void(std::string_view)>& write_;
  std::map<Row, int> rows_;
  std::map<std::uint64_t, std::size_t> places_;  // by group
  std::map<std::thread::id, std::size_t> phases_;
  std::uint64_t queued_ = 0;
  std::string piece_;
};

}  // namespace

void chrome_events(const Recording& recording, const Traced& traced, const TickClock::Scale& scale, bool very_first,
                   const std::function<void(std::string_view)>& write) {
  Writer(recording, traced, scale, very_first, write).all();
}

std::string chrome_head() {
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
}
std::string chrome_tail() {
  return "\n]}\n";
}

}  // namespace anello::trace
