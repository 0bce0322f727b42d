#include "ring/agenda/agenda.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <anello/error.hpp>
#include <tuple>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::agenda {
namespace {

// Maximum number of keys that get a number; further keys are sent as text each time.
constexpr std::size_t kMaxNumbers = 1 << 14;

int parent_of(int rank) {
  return rank & (rank - 1);
}

std::vector<int> children_of(int rank, int ranks) {
  std::vector<int> children;
  for (int bit = 1; (rank & bit) == 0 && (rank | bit) < ranks; bit <<= 1) children.push_back(rank | bit);
  return children;
}

std::vector<Party> merged(std::vector<Party> all, const std::vector<Party>& others) {
  for (const Party& other : others) {
    const auto equal = std::ranges::find(all, other.description, &Party::description);
    if (equal != all.end()) {
      equal->ranks += other.ranks;
      equal->lowest = std::min(equal->lowest, other.lowest);
    } else if (all.size() < kMaxParties) {
      all.push_back(other);
    }
  }
  return all;
}

[[noreturn]] void refuse_call(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

[[noreturn]] void violated(const std::string& how) {
  throw Error(ErrorCode::protocol, text("agenda message: ", how));
}

// True if the key contains a name that the program gave. A key without such a name is used only once.
bool has_name(std::string_view key) {
  return key.ends_with('\'');
}

}  // namespace

Agenda::Agenda(int rank, std::vector<int> members, SuitsList suits_list)
    : rank_(rank),
      members_(std::move(members)),
      neighbours_(children_of(rank, int(members_.size()))),
      children_(neighbours_.size()),
      joined_(children_ + 1),
      suits_list_(std::move(suits_list)) {
  if (rank > 0) neighbours_.push_back(parent_of(rank));
  outgoing_.resize(neighbours_.size());
}

// When all ranks have joined, the numbers of unnamed operations begin again at 0 on every rank. Until then they differ,
// because a rank that joined early has submitted fewer operations.
std::string Agenda::claim(std::string_view name, Verb verb) {
  const std::string_view call = agenda::name(verb);
  if (joined_[0] || joins_later_) refuse_call(text(call, ": this rank has joined, but not all other ranks have"));
  const std::string since = joins_ == 0 ? "" : " after join " + std::to_string(joins_);
  std::string key(call);  // made without a stringstream, which would take a tenth of the operation's time
  key += name.empty() ? " #" + std::to_string(unnamed_[verb]) + since : std::string(" '").append(name).append("'");
  if (key.size() > kMaxKeyBytes) refuse_call(text(call, ": a name of ", name.size(), " bytes is too long"));
  if (!taken_.insert(key).second)
    refuse_call(text(key,
                     " is still in use: no call has returned that it is done; wait for it, or give each "
                     "operation a name of its own"));
  if (name.empty()) unnamed_[verb]++;
  return key;
}

std::string Agenda::submit(std::string_view name, const Description& description, const Sizes& sizes) {
  std::string key = claim(name, description.verb);
  Item report{.type = Item::Type::ready, .described_by = rank_};
  const auto number = numbers_.find(key);
  const Agreed* const before = number == numbers_.end() ? nullptr : numbered_[number->second].agreed.get();
  if (!before || before->description != description) report.description = description;
  if (!sizes.empty() && (!before || before->sizes[std::size_t(rank_)] != sizes))
    report.sizes.emplace_back(rank_, sizes);
  put_forward(key, std::move(report));
  resume();
  return key;
}

bool Agenda::refuse(std::string_view name, Verb verb, const std::string& why) {
  std::string key;
  try {
    key = claim(name, verb);
  } catch (const Error&) {
    return false;
  }
  taken_.erase(key);
  const Refusal refusal{rank_, text("rank ", world_rank(rank_), " cannot take part: ", why)};
  put_forward(key, {.type = Item::Type::ready, .described_by = rank_, .refusal = refusal});
  resume();
  return true;
}

// Reports this rank's call. If this rank has refused a call with the same key, and that call is not decided yet, holds
// the report back until the decision, so that reports of one key stay in order.
void Agenda::put_forward(const std::string& key, Item report) {
  if (const auto number = numbers_.find(key); number != numbers_.end())
    report.number = number->second;
  else
    report.key = key;
  if (const auto refused = refused_.find(key); refused != refused_.end())
    return refused->second.push_back(std::move(report));
  if (report.refusal) refused_[key];
  undecided_.insert(key);
  add(0, std::move(report));
}

// Makes the decisions that are possible now. Some reports were held back for refused operations that are now decided:
// then sends these, and after them this rank's join if one is pending. Each of these reports may cause another
// decision. So do not call this function while a decision is carried out: its calls would nest, and there may be many
// of them.
void Agenda::resume() {
  const auto decided = [this](const auto& refused) { return !undecided_.contains(refused.first); };
  while (true) {
    decide_complete();
    if (const auto refused = std::ranges::find_if(refused_, decided); refused != refused_.end()) {
      const auto [key, held] = std::move(*refused);
      refused_.erase(refused);
      for (const Item& report : held) put_forward(key, report);
    } else if (joins_later_ && !holds_back()) {
      joins_later_ = false;
      joined(0, rank_);
    } else {
      return;
    }
  }
}

bool Agenda::holds_back() const {
  return std::ranges::any_of(refused_, [](const auto& each) { return !each.second.empty(); });
}

void Agenda::join() {
  if (joined_[0] || joins_later_) refuse_call("join: this rank has joined, but not all other ranks have");
  if (holds_back())
    joins_later_ = true;
  else
    joined(0, rank_);
  resume();
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
    for (Item& item : decode_items(message, int(members_.size()))) {
      if (neighbour < children_)
        take_report(neighbour + 1, std::move(item));
      else
        take_decision(item);
    }
    if (!decisions_.empty() && decisions_.back().with_next) violated("a list without its last operation");
    resume();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), world_rank(from));
  }
}

void Agenda::take_report(std::size_t part, Item item) {
  if (item.type == Item::Type::ready)
    add(part, std::move(item));
  else if (item.type == Item::Type::joined && !joined_[part])
    joined(part, item.last);
  else
    violated("a decision or a second join from a child; children send only reports");
}

void Agenda::take_decision(const Item& item) {
  if (item.type == Item::Type::ready || item.type == Item::Type::joined)
    violated("a report from the parent; the parent sends only decisions");
  carry_down(item);
}

// Carries out a decision on this rank, and sends it to the children.
void Agenda::carry_down(const Item& decision) {
  apply(decision);
  for (std::size_t child = 0; child < children_; child++) encode(decision, outgoing_[child]);
}

const std::string& Agenda::key_of(const Item& item) const {
  if (!item.key.empty()) return item.key;
  if (item.number >= numbered_.size()) violated(text("no operation has number ", item.number));
  return numbered_[item.number].key;
}

// Adds the report of part `part` of this rank's subtree: part 0 is this rank, part k is the subtree of child k - 1.
void Agenda::add(std::size_t part, Item report) {
  const auto found = entries_.try_emplace(key_of(report), joined_.size()).first;
  std::optional<Item>& place = found->second[part];
  if (place) violated(text(found->first, " was reported twice"));
  const bool numbered = report.number < numbered_.size();
  if (!report.description && report.parties.empty() && !report.refusal && !numbered)
    violated("an operation without a description");
  place = std::move(report);
  if (complete(found->second)) pass_on(found);
}

bool Agenda::complete(const Reports& reports) const {
  for (std::size_t part = 0; part < joined_.size(); part++)
    if (!reports[part] && !joined_[part]) return false;
  return true;
}

// Call when part `part` has joined. First passes on the operations that waited only for this part, so that no operation
// is left when all ranks have joined.
void Agenda::joined(std::size_t part, int last) {
  joined_[part] = true;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto here = entry++;
    if (complete(here->second)) pass_on(here);
  }
  if (std::ranges::find(joined_, false) != joined_.end()) return;
  if (rank_ > 0) return encode({.type = Item::Type::joined, .last = last}, outgoing_.back());
  holds_ = false;
  decide_complete();
  carry_down({.type = Item::Type::all_joined, .last = last});
}

void Agenda::pass_on(Entries::iterator entry) {
  Item report = combined(std::move(entry->second));
  entries_.erase(entry);
  if (rank_ > 0) return encode(report, outgoing_.back());
  complete_.reports.push_back({.report = std::move(report)});
}

// Combines the reports in a fixed order: this rank's report, then its children's. So the result does not depend on
// which report arrived first.
Item Agenda::combined(Reports reports) const {
  std::optional<Item> all;
  std::int32_t absent = -1;
  for (std::size_t part = 0; part < reports.size(); part++) {
    std::optional<Item>& report = reports[part];
    if (absent < 0) absent = report ? report->absent : part == 0 ? rank_ : neighbours_[part - 1];
    if (report && all)
      combine(*all, *report);
    else if (report)
      all = std::move(report);
  }
  all->absent = absent;
  if (all->refusal) all->parties.clear();
  if (all->refusal || !all->parties.empty()) {
    all->description.reset();
    all->sizes.clear();
  }
  return std::move(*all);
}

// Two descriptions also count as different if one rank has changed its description since the previous operation with
// this key, and the other rank has not.
void Agenda::combine(Item& all, const Item& report) const {
  if (!all.refusal) all.refusal = report.refusal;
  if (all.refusal) return;
  const bool agree = all.parties.empty() && report.parties.empty() && described(all) == described(report);
  if (!agree) all.parties = merged(parties_of(all), parties_of(report));
  all.described_by = std::min(all.described_by, report.described_by);
  all.ranks += report.ranks;
  all.sizes.insert(all.sizes.end(), report.sizes.begin(), report.sizes.end());
}

std::vector<Party> Agenda::parties_of(const Item& report) const {
  if (!report.parties.empty()) return report.parties;
  return {{described(report), report.described_by, report.ranks}};
}

const Description& Agenda::described(const Item& report) const {
  return report.description ? *report.description : numbered_[report.number].agreed->description;
}

// If more than half of the group's ranks agree, the other ranks are at fault. Otherwise it is not clear who is at
// fault.
Refusal Agenda::dispute(const std::vector<Party>& parties) const {
  const Party& most = *std::ranges::max_element(parties, {}, &Party::ranks);
  const Party* odd = nullptr;
  for (const Party& party : parties)
    if (&party != &most && (!odd || party.lowest < odd->lowest)) odd = &party;
  const auto& [first, second] = most.lowest < odd->lowest ? std::tie(most, *odd) : std::tie(*odd, most);
  std::string why =
      difference(world_rank(first.lowest), first.description, world_rank(second.lowest), second.description);
  if (!is_majority(most.ranks, members_.size())) return {-1, std::move(why)};
  return {odd->lowest,
          text(why, "; ", most.ranks, " of ", members_.size(), " ranks agree with rank ", world_rank(most.lowest))};
}

// Called at rank 0 when rank 0 has the reports of all ranks.
Item Agenda::decision_of(Item report) const {
  if (!report.parties.empty()) report.refusal = dispute(std::exchange(report.parties, {}));
  if (!report.refusal && report.absent >= 0 && !allows_joined(described(report).verb))
    report.refusal =
        Refusal{report.absent, text("rank ", world_rank(report.absent), " has joined, so it has no tensor to give")};
  report.type = report.refusal ? Item::Type::refused : Item::Type::run;
  if (report.refusal) {
    report.description.reset();
    report.sizes.clear();
  } else if (report.number == kNoNumber && has_name(report.key) && numbered_.size() < kMaxNumbers) {
    report.number = std::uint32_t(numbered_.size());
  }
  report.absent = -1;
  report.ranks = 1;
  return report;
}

void Agenda::apply(const Item& item) {
  if (item.type == Item::Type::all_joined) {
    joined_.assign(joined_.size(), false);
    joins_++;
    unnamed_.clear();
    decisions_.push_back({.key = {}, .mine = true, .agreed = {}, .refusal = {}, .last = item.last, .with_next = false});
    return;
  }
  const std::string key = key_of(item);
  const bool mine = undecided_.erase(key) > 0;
  if (!mine && !joined_[0]) violated(text(key, " was decided, but this rank has not submitted it"));
  const bool refused = mine && refused_.contains(key);
  if (refused && !item.refusal) violated(text(key, " was decided to start, but this rank has refused it"));
  Decision decision{.key = key,
                    .mine = mine && !refused,
                    .agreed = {},
                    .refusal = item.refusal,
                    .with_next = item.type == Item::Type::run_with_next};
  if (!item.refusal) decision.agreed = learn(key, item);
  const bool in_list = decision.with_next || (!decisions_.empty() && decisions_.back().with_next);
  if (in_list && (!decision.agreed || !may_be_in_list(decision.agreed->description)))
    violated(text(key, " was decided for a list"));
  decisions_.push_back(std::move(decision));
}

// All ranks receive the same decisions in the same order, so the cache of descriptions is equal on all ranks.
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

}  // namespace anello::agenda
