#include "ring/agenda/agenda.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::agenda {
namespace {

constexpr std::size_t kMaxNumbers = 1 << 14;  // keys beyond that are sent as text each time

int parent_of(int rank) {
  return rank & (rank - 1);
}

std::vector<int> children_of(int rank, int ranks) {
  std::vector<int> children;
  for (int bit = 1; (rank & bit) == 0 && (rank | bit) < ranks; bit <<= 1) children.push_back(rank | bit);
  return children;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

[[noreturn]] void violated(const std::string& how) {
  throw Error(ErrorCode::protocol, text("agenda message: ", how));
}

// Only a key that a program chose comes again.
bool has_name(std::string_view key) {
  return key.ends_with('\'');
}

// "'loss'" of "allreduce 'loss'".
std::string_view name_in(std::string_view key) {
  return key.substr(key.find(' ') + 1);
}

}  // namespace

Agenda::Agenda(int rank, std::vector<int> members)
    : rank_(rank),
      members_(std::move(members)),
      neighbours_(children_of(rank, int(members_.size()))),
      children_(neighbours_.size()),
      joined_(children_ + 1) {
  if (rank > 0) neighbours_.push_back(parent_of(rank));
  outgoing_.resize(neighbours_.size());
}

std::string Agenda::submit(std::string_view name, const Description& description, const Sizes& sizes) {
  const std::string_view verb = agenda::name(description.verb);
  if (joined_[0]) refuse(text(verb, ": this rank has joined, and not all other ranks have"));
  const std::string key = name.empty() ? text(verb, " #", unnamed_[description.verb]) : text(verb, " '", name, "'");
  if (key.size() > kMaxKeyBytes) refuse(text(verb, ": a name of ", name.size(), " bytes is too long"));
  if (!taken_.insert(key).second)
    refuse(text(key,
                " was submitted before, and no call has returned that it is done; wait for it, or give each "
                "operation a name of its own"));
  if (name.empty()) unnamed_[description.verb]++;
  undecided_.insert(key);

  Item report{.type = Item::Type::ready, .described_by = rank_};
  const auto number = numbers_.find(key);
  const Agreed* before = nullptr;
  if (number != numbers_.end()) {
    report.number = number->second;
    before = numbered_[number->second].agreed.get();
  } else {
    report.key = key;
  }
  if (!before || before->description != description) report.description = description;
  if (!sizes.empty() && (!before || before->sizes[std::size_t(rank_)] != sizes))
    report.sizes.emplace_back(rank_, sizes);
  add(0, report);
  return key;
}

void Agenda::join() {
  if (joined_[0]) refuse("join: this rank has joined, and not all other ranks have");
  joined(0, rank_);
}

void Agenda::release(const std::string& key) {
  taken_.erase(key);
}

std::string Agenda::say(int neighbour) {
  const auto found = std::ranges::find(neighbours_, neighbour);
  return std::move(std::exchange(outgoing_[std::size_t(found - neighbours_.begin())], {})).take();
}

bool Agenda::has_to_say() const {
  return std::ranges::any_of(outgoing_, [](const Writer& out) { return !out.bytes().empty(); });
}

std::vector<Decision> Agenda::decide() {
  return std::exchange(decisions_, {});
}

void Agenda::receive(int from, std::string_view message) {
  try {
    const auto neighbour = std::size_t(std::ranges::find(neighbours_, from) - neighbours_.begin());
    for (const Item& item : decode_items(message, int(members_.size()))) {
      if (neighbour < children_)
        take_report(neighbour + 1, item);
      else
        take_decision(item);
    }
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), world_rank(from));
  }
}

void Agenda::take_report(std::size_t part, const Item& item) {
  if (item.type == Item::Type::ready)
    add(part, item);
  else if (item.type == Item::Type::joined && !joined_[part])
    joined(part, item.last);
  else
    violated("a decision, or a second join, of a rank that only reports");
}

void Agenda::take_decision(const Item& item) {
  if (item.type == Item::Type::ready || item.type == Item::Type::joined)
    violated("a report of a rank that only decides");
  apply(item);
  send_down(item);
}

const std::string& Agenda::key_of(const Item& item) const {
  if (!item.key.empty()) return item.key;
  if (item.number >= numbered_.size()) violated(text("no operation has number ", item.number));
  return numbered_[item.number].key;
}

// Part 0 is this rank, part k the subtree of child k - 1.
void Agenda::add(std::size_t part, const Item& report) {
  const auto found = entries_.try_emplace(key_of(report), joined_.size()).first;
  std::optional<Item>& place = found->second[part];
  if (place) violated(text(found->first, " was reported twice"));
  const bool numbered = report.number < numbered_.size();
  if (!report.description && !report.refusal && !numbered) violated("an operation without a description");
  place = report;
  if (complete(found->second)) pass_on(found);
}

bool Agenda::complete(const Reports& reports) const {
  for (std::size_t part = 0; part < joined_.size(); part++)
    if (!reports[part] && !joined_[part]) return false;
  return true;
}

// What only waited for this part goes on first, so that nothing is left when all have joined.
void Agenda::joined(std::size_t part, int last) {
  joined_[part] = true;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    if (complete(here->second)) pass_on(here);
  }
  if (std::ranges::find(joined_, false) != joined_.end()) return;
  if (rank_ > 0) return encode({.type = Item::Type::joined, .last = last}, outgoing_.back());
  const Item decision{.type = Item::Type::all_joined, .last = last};
  apply(decision);
  send_down(decision);
}

void Agenda::pass_on(Entries::iterator entry) {
  Item report = combined(entry->second);
  entries_.erase(entry);
  if (rank_ > 0) return encode(report, outgoing_.back());
  const Item decision = decision_of(std::move(report));
  apply(decision);
  send_down(decision);
}

// In the order of the parts, so that the outcome does not depend on which report came first.
Item Agenda::combined(const Reports& reports) const {
  std::optional<Item> all;
  std::int32_t absent = -1;
  for (std::size_t part = 0; part < reports.size(); part++) {
    const std::optional<Item>& report = reports[part];
    if (absent < 0) absent = report ? report->absent : part == 0 ? rank_ : neighbours_[part - 1];
    if (report && all)
      combine(*all, *report);
    else if (report)
      all = report;
  }
  all->absent = absent;
  if (all->refusal) {
    all->description.reset();
    all->sizes.clear();
  }
  return *all;
}

// If one rank's description changed and that of another did not, they differ.
void Agenda::combine(Item& all, const Item& report) const {
  if (!all.refusal) all.refusal = report.refusal;
  if (all.refusal) return;
  if (described(all) != described(report))
    all.refusal = Refusal{report.described_by, difference(world_rank(all.described_by), described(all),
                                                          world_rank(report.described_by), described(report))};
  all.sizes.insert(all.sizes.end(), report.sizes.begin(), report.sizes.end());
}

const Description& Agenda::described(const Item& report) const {
  return report.description ? *report.description : numbered_[report.number].agreed->description;
}

// At rank 0, which has the reports of all ranks.
Item Agenda::decision_of(Item report) const {
  if (!report.refusal && report.absent >= 0 && !allows_joined(described(report).verb))
    report.refusal =
        Refusal{report.absent, text("rank ", world_rank(report.absent), " has joined, and has no tensor to give")};
  report.type = report.refusal ? Item::Type::refused : Item::Type::run;
  if (report.refusal) {
    report.description.reset();
    report.sizes.clear();
  } else if (report.number == kNoNumber && has_name(report.key) && numbered_.size() < kMaxNumbers) {
    report.number = std::uint32_t(numbered_.size());
  }
  report.absent = -1;
  return report;
}

void Agenda::send_down(const Item& decision) {
  for (std::size_t child = 0; child < children_; child++) encode(decision, outgoing_[child]);
}

void Agenda::apply(const Item& item) {
  if (item.type == Item::Type::all_joined) {
    joined_.assign(joined_.size(), false);
    unnamed_.clear();
    decisions_.push_back({.key = {}, .mine = true, .agreed = {}, .refusal = {}, .last = item.last});
    return;
  }
  const std::string key = key_of(item);
  const bool mine = undecided_.erase(key) > 0;
  if (!mine && !joined_[0]) violated(text(key, " was decided, which this rank has not submitted"));
  Decision decision{.key = key, .mine = mine, .agreed = {}, .refusal = item.refusal};
  if (!item.refusal) decision.agreed = learn(key, item);
  decisions_.push_back(std::move(decision));
}

// Equal on all ranks, since they learn the same in the same order.
std::shared_ptr<const Agreed> Agenda::learn(const std::string& key, const Item& item) {
  std::shared_ptr<const Agreed> before;
  if (item.number < numbered_.size()) before = numbered_[item.number].agreed;
  if (before && !item.description && item.sizes.empty()) return before;
  if (!before && !item.description) violated("a decision without a description");
  auto agreed = std::make_shared<Agreed>(before ? *before : Agreed{});
  if (item.description) agreed->description = *item.description;
  agreed->sizes.resize(members_.size());
  for (const auto& [rank, sizes] : item.sizes) agreed->sizes[std::size_t(rank)] = sizes;
  for (const Sizes& sizes : agreed->sizes)
    if (sizes.size() != number_of_sizes(agreed->description, int(members_.size())))
      violated(text(key, " was decided with ", sizes.size(), " sizes"));
  if (item.number == kNoNumber) return agreed;
  if (!before) {
    if (item.number != numbered_.size() || item.key.empty()) violated("a number out of order");
    numbered_.push_back({key, agreed});
    numbers_[key] = item.number;
  } else {
    numbered_[item.number].agreed = agreed;
  }
  return agreed;
}

std::string Agenda::waits_for(const std::string& key) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end())
    return rank_ > 0 ? text(key, " waits for the answer of rank ", world_rank(neighbours_.back())) : key;
  std::string late, instead;
  bool has_others = false;
  for (std::size_t child = 0; child < children_; child++) {
    if (entry->second[child + 1] || joined_[child + 1]) continue;
    const int rank = world_rank(neighbours_[child]);
    late += text(late.empty() ? "" : ", ", "rank ", rank,
                 children_of(neighbours_[child], int(members_.size())).empty() ? "" : " or one that reports to it");
    const std::string other = reported_by(child + 1, key);
    if (other.empty()) continue;
    instead += text("; rank ", rank, " called ", other, " instead");
    has_others |= name_in(other) != name_in(key);
  }
  return text(key, " waits for ", late, instead, has_others ? "; a rank that has no more data must call join()" : "");
}

// An operation that this part has reported and that is not decided; one of the same name as `key` if there is one.
// Empty: none.
std::string Agenda::reported_by(std::size_t part, std::string_view key) const {
  std::string found;
  for (const auto& [other, reports] : entries_)
    if (reports[part] && (found.empty() || name_in(other) == name_in(key))) found = other;
  return found;
}

}  // namespace anello::agenda
