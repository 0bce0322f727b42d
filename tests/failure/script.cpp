#include "tests/failure/script.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/support/assembly.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;

// A parsed line such as `suspect 1 3 "closed" group=2`: a verb, words and quoted texts in order, and named values.
struct Command {
  std::string verb;
  std::deque<std::string> words;
  std::deque<std::string> texts;
  std::map<std::string, std::string> named;
};

[[noreturn]] void fail(const std::string& why) {
  throw std::runtime_error(why);
}

Command parse(std::string_view line) {
  std::istringstream in{std::string(line)};
  Command command;
  in >> command.verb;
  while (in >> std::ws && in.peek() != EOF) {
    std::string token;
    const bool quoted = in.peek() == '"';
    in >> std::quoted(token);
    if (quoted)
      command.texts.push_back(token);
    else if (const auto equals = token.find('='); equals != std::string::npos)
      command.named[token.substr(0, equals)] = token.substr(equals + 1);
    else
      command.words.push_back(token);
  }
  return command;
}

// Each function removes one argument from the command. Arguments that are left at the end are an error.
std::string take_word(Command& command) {
  if (command.words.empty()) fail(text("'", command.verb, "' needs one more word"));
  std::string word = std::move(command.words.front());
  command.words.pop_front();
  return word;
}
std::string take_text(Command& command) {
  if (command.texts.empty()) fail(text("'", command.verb, "' needs a text in quotes"));
  std::string taken = std::move(command.texts.front());
  command.texts.pop_front();
  return taken;
}
std::uint64_t number(const std::string& digits) {
  return std::uint64_t(parse_number("number", digits, 0, 1'000'000));
}
milliseconds time(std::string word) {
  if (!word.ends_with("ms")) fail(text("'", word, "' must be a time in ms"));
  word.resize(word.size() - 2);
  return milliseconds(number(word));
}
std::optional<std::string> take_named(Command& command, const std::string& name) {
  const auto node = command.named.extract(name);
  return node ? std::optional(node.mapped()) : std::nullopt;
}
std::uint64_t take_number(Command& command, const std::string& name, std::uint64_t otherwise) {
  const auto digits = take_named(command, name);
  return digits ? number(*digits) : otherwise;
}
milliseconds take_time(Command& command, const std::string& name, const std::string& otherwise = {}) {
  return time(take_named(command, name).value_or(otherwise.empty() ? "no " + name : otherwise));
}
std::uint64_t take_group(Command& command) {
  return take_number(command, "group", 0);
}
Signature take_operation(Command& command) {
  const std::uint64_t sequence = number(take_word(command));
  Signature signature = operation(sequence, take_number(command, "count", 100));
  if (take_named(command, "kind").value_or("allreduce") == "transfer") signature.kind = Kind::transfer;
  signature.group = take_group(command);
  return signature;
}
ErrorCode take_code(Command& command) {
  const std::string word = take_word(command);
  for (int code = 1; name(ErrorCode(code)) != "?"; code++)
    if (name(ErrorCode(code)) == word) return ErrorCode(code);
  fail(text("'", word, "' is not an error code"));
}

class Script {
 public:
  explicit Script(std::uint64_t seed) : seed_(seed) {}

  void carry_out(Command command) {
    const auto verb = verbs().find(command.verb);
    if (verb == verbs().end()) fail(text("'", command.verb, "' is not a command"));
    if (!world_ && command.verb != "ranks") fail("a world begins with 'ranks'");
    (this->*verb->second)(command);
    if (!command.words.empty()) fail(text("'", command.words.front(), "' is one word too many"));
    if (!command.texts.empty()) fail(text("\"", command.texts.front(), "\" is one text too many"));
    if (!command.named.empty()) fail(text("'", command.named.begin()->first, "=' does not belong here"));
  }

  void finish() {
    collect_reports();
    if (!reports_.empty()) fail(text("unexpected report: ", reports_.front()));
  }

 private:
  using Verb = void (Script::*)(Command&);
  static const std::map<std::string, Verb>& verbs() {
    static const std::map<std::string, Verb> all = {
        {"ranks", &Script::ranks},     {"group", &Script::group},     {"begin", &Script::begin},
        {"wait", &Script::wait},       {"move", &Script::move},       {"stall", &Script::stall},
        {"overdue", &Script::overdue}, {"leave", &Script::leave},     {"propose", &Script::propose},
        {"suspect", &Script::suspect}, {"silent", &Script::silent},   {"slow", &Script::slow},
        {"kill", &Script::kill},       {"stop", &Script::stop},       {"cut", &Script::cut},
        {"deliver", &Script::deliver}, {"advance", &Script::advance}, {"expect", &Script::expect},
        {"depart", &Script::depart},   {"run", &Script::run},         {"refuse", &Script::refuse}};
    return all;
  }

  Assembly& world() { return *world_; }
  milliseconds now() { return world().now(); }
  int take_rank(Command& command) {
    const std::uint64_t rank = number(take_word(command));
    if (rank >= std::uint64_t(world().size())) fail(text("there is no rank ", rank));
    return int(rank);
  }

  void ranks(Command& command) {
    if (world_) finish();
    world_.emplace(int(number(take_word(command))), seed_);
  }
  void group(Command& command) {
    const std::uint64_t id = number(take_word(command));
    const std::string name = take_text(command);
    std::vector<int> members;
    while (!command.words.empty()) members.push_back(take_rank(command));
    const std::optional<std::string> by = take_named(command, "by");
    for (const int member : members)
      if (!by || number(*by) == std::uint64_t(member)) world()[member].enroll(id, name, members, now());
  }
  void begin(Command& command) {
    const int rank = take_rank(command);
    const Signature mine = take_operation(command);
    world().begin(rank, mine);
    world()[rank].needs(mine, now());
  }
  void wait(Command& command) {
    const int rank = take_rank(command);
    world()[rank].waiting(take_operation(command), now());
  }
  void move(Command& command) {
    const int rank = take_rank(command);
    world()[rank].moving(take_operation(command));
  }
  void refuse(Command& command) {
    const int rank = take_rank(command);
    const Signature call = take_operation(command);
    world()[rank].refused(call.group, {call.sequence, take_text(command)}, now());
  }
  void stall(Command& command) {
    const int rank = take_rank(command);
    const milliseconds period = take_time(command, "period", "60000ms");
    world()[rank].stalled(take_operation(command), period, now());
  }
  void overdue(Command& command) {
    const int rank = take_rank(command);
    world()[rank].overdue(take_operation(command), milliseconds(90000), now());
  }
  void leave(Command& command) {
    const int rank = take_rank(command);
    const std::uint64_t group = take_group(command);
    world()[rank].leave(group, take_number(command, "completed", 0));
  }
  void propose(Command& command) {
    const int rank = take_rank(command);
    const ErrorCode code = take_code(command);
    world()[rank].propose({code, rank, take_text(command)}, now());
  }
  void suspect(Command& command) {
    const int rank = take_rank(command), other = take_rank(command);
    const std::uint64_t group = take_group(command);
    world()[rank].suspect(other, group, take_text(command), now());
  }
  void silent(Command& command) {
    const int rank = take_rank(command), other = take_rank(command);
    world()[rank].silent(other, time(take_word(command)), now());
  }
  void slow(Command& command) {
    const int rank = take_rank(command), other = take_rank(command);
    const milliseconds own = take_time(command, "own"), theirs = take_time(command, "theirs");
    world()[rank].slow({other, own, theirs, take_time(command, "period")}, now());
  }
  void kill(Command& command) { world().kill(take_rank(command)); }
  void depart(Command& command) {
    while (!command.words.empty()) world().depart(take_rank(command));
  }
  void stop(Command& command) { world().stop(take_rank(command)); }
  void cut(Command& command) {
    const int a = take_rank(command), b = take_rank(command);
    world().cut(a, b);
    world()[a].lost(b, "the network is cut", now());
    world()[b].lost(a, "the network is cut", now());
  }
  void deliver(Command&) { world().deliver_all(); }
  void advance(Command& command) { world().advance(time(take_word(command))); }
  void run(Command& command) { world().run(time(take_word(command))); }

  // Runs `expect [no] verdict|report|end ...` for all living ranks, or only for the ranks that `at` lists.
  void expect(Command& command) {
    std::string what = take_word(command);
    const bool none = what == "no";
    if (none) what = take_word(command);
    if (what == "verdict") return none ? expect_no_verdict() : expect_verdict(command);
    if (what == "report") return none ? expect_no_report() : expect_report(command);
    if (what == "end") return expect_end(command, none);
    fail(text("cannot expect '", what, "'"));
  }
  std::vector<int> take_observers(Command& command) {
    if (command.words.empty() || command.words.front() != "at") return world().alive();
    take_word(command);
    std::vector<int> ranks;
    while (!command.words.empty()) ranks.push_back(take_rank(command));
    return ranks;
  }

  void expect_no_verdict() {
    for (const int rank : world().alive())
      if (const auto& verdict = world()[rank].verdict())
        fail(text("expected no verdict, rank ", rank, " has '", verdict->message, "'"));
  }
  void expect_verdict(Command& command) {
    const std::string word = take_word(command);
    const int culprit = word == "nobody" ? -1 : int(number(word));
    const ErrorCode code = take_code(command);
    std::optional<std::string> first;
    const std::vector<int> observers = take_observers(command);
    for (const int rank : observers) {
      const auto& verdict = world()[rank].verdict();
      if (!verdict) fail(text("expected a verdict, rank ", rank, " has none"));
      const std::string found =
          text("rank ", rank, " has ", verdict->culprit, " ", name(verdict->code), " '", verdict->message, "'");
      if (verdict->culprit != culprit || verdict->code != code) fail(text("expected a different verdict, ", found));
      if (first.value_or(verdict->message) != verdict->message)
        fail(text("rank ", observers[0], " has '", *first, "', ", found));
      first = verdict->message;
    }
    while (!command.texts.empty()) expect_part(take_text(command), first.value_or(""));
  }
  static void expect_part(const std::string& part, const std::string& whole) {
    if (whole.find(part) == std::string::npos) fail(text("expected '", part, "' in '", whole, "'"));
  }

  // Rank 0 logs the reports.
  void collect_reports() {
    for (std::string& report : world()[0].take_reports()) reports_.push_back(std::move(report));
  }
  void expect_no_report() { finish(); }
  void expect_report(Command& command) {
    collect_reports();
    const std::string expected = take_text(command);
    if (reports_.empty()) fail("expected a report, there is none");
    const std::string found = std::move(reports_.front());
    reports_.pop_front();
    if (found != expected) fail(text("expected a different report than '", found, "'"));
  }

  // Expects the number of the group's first operation that cannot complete, because a rank left before it.
  void expect_end(Command& command, bool none) {
    const std::uint64_t expected = none ? UINT64_MAX : number(take_word(command));
    const std::uint64_t group = take_group(command);
    for (const int rank : take_observers(command))
      if (const std::uint64_t end = world()[rank].ends_at(group); end != expected)
        fail(text("rank ", rank, " expects group ", group, " to end at ",
                  end == UINT64_MAX ? "no operation" : text(end)));
  }

  std::uint64_t seed_;
  std::optional<Assembly> world_;
  std::deque<std::string> reports_;
};

}  // namespace

std::optional<std::string> run_script(std::string_view script, std::uint64_t seed) {
  std::istringstream in{std::string(script)};
  Script interpreter(seed);
  std::size_t number = 0;
  try {
    for (std::string line; std::getline(in, line);) {
      number++;
      if (const auto begin = line.find_first_not_of(' '); begin != std::string::npos && line[begin] != '#')
        interpreter.carry_out(parse(line));
    }
    interpreter.finish();
  } catch (const std::exception& error) {
    return text("line ", number, ": ", error.what());
  }
  return std::nullopt;
}

}  // namespace anello::failure
