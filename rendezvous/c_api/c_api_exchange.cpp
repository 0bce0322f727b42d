// Starts a world through the caller's own exchange (anello_init_through).
#include <map>

#include "rendezvous/c_api/handles.hpp"
#include "rendezvous/init_through.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "ring/base/mutex.hpp"

using namespace anello::c_api;
using anello::text;

namespace {

constexpr std::size_t kMaxTextBytes = 255;

// Keys stay in the exchange for ever, so each world needs its own keys. Every rank counts the worlds that it makes.
int next_world_of(const std::string& exchange) {
  static anello::Mutex mutex;
  static std::map<std::string, int> worlds ANELLO_GUARDED_BY(mutex);
  const anello::MutexLock lock(mutex);
  return worlds[exchange]++;
}

class ExchangeSpace final : public anello::rendezvous::KeyValueSpace {
 public:
  ExchangeSpace(const anello_exchange& exchange, std::string name, std::chrono::milliseconds limit)
      : exchange_(exchange), name_(std::move(name)), limit_(limit) {}

  int rank() const override { return exchange_.rank; }
  int size() const override { return exchange_.size; }
  std::string name() const override { return name_; }
  void put(const std::string& key, const std::string& value) override {
    if (value.size() > kMaxTextBytes) fail(text("a text of ", value.size(), " bytes cannot be put"));
    if (exchange_.put(exchange_.context, own(key).c_str(), value.c_str()) != 0) fail(text("put failed for ", own(key)));
  }
  void fence() override {}  // does nothing, because get() waits until another rank has put the value
  std::string get(const std::string& key) override {
    std::array<char, kMaxTextBytes + 1> value{};
    if (exchange_.get(exchange_.context, own(key).c_str(), std::uint64_t(limit_.count()), value.data(), value.size()) !=
        0)
      fail(text("get failed for ", own(key), " after at most ", limit_.count(),
                " ms: rank 0 has not put it, or cannot be reached; ANELLO_START_TIMEOUT sets the limit"));
    if (value.back() != '\0') fail(text("get returned more than ", kMaxTextBytes, " bytes for ", own(key)));
    return value.data();
  }

 private:
  std::string own(const std::string& key) const { return text(name_, "-", key); }
  [[noreturn]] void fail(const std::string& why) const {
    throw anello::Error(anello::ErrorCode::network, text("the exchange '", name_, "': ", why));
  }

  const anello_exchange exchange_;
  const std::string name_;
  const std::chrono::milliseconds limit_;
};

void check_exchange(const anello_exchange& exchange) {
  if (!exchange.put || !exchange.get) refuse("put and get of the exchange must not be NULL");
  if (exchange.size < 1 || exchange.rank < 0 || exchange.rank >= exchange.size)
    refuse(text("rank ", exchange.rank, " of ", exchange.size, " is not possible"));
}

}  // namespace

anello_status anello_init_through(const anello_exchange* exchange, const anello_config* config, anello_world** world) {
  return guarded([&] {
    required(world, "out parameter");
    const anello_exchange given = known(&required(exchange, "exchange"), anello_exchange ANELLO_EXCHANGE_INIT);
    check_exchange(given);
    const anello::rendezvous::Interruption interruption(asked_by(config));
    anello::Settings settings = settings_of(config);
    const std::string base = given.name ? given.name : "exchange";
    auto space =
        std::make_unique<ExchangeSpace>(given, text("anello-", base, "-", next_world_of(base)), settings.start_timeout);
    *world = new_world(anello::rendezvous::init_through(std::move(space), std::move(settings)));
  });
}
