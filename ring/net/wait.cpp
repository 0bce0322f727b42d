#include "ring/net/wait.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <anello/error.hpp>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "ring/base/text.hpp"

namespace anello {

Bell::Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw Error(Code::network, text("eventfd: ", std::system_category().message(errno), "; is `ulimit -n` reached?"));
}
Bell::~Bell() {
  close(descriptor_);
}

void Bell::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(descriptor_, &one, sizeof one);  // full means that it rings already
}

void Bell::hush() noexcept {
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = read(descriptor_, &rings, sizeof rings);
}

Patience Patience::of(int spins, int yields, int local_ranks, double cores) {
  Patience patience = local_ranks <= cores ? Patience{5000, 100} : Patience{0, 100};
  if (spins >= 0) patience.spins = spins;
  if (yields >= 0) patience.yields = yields;
  return patience;
}

bool Waiter::pause() {
  idle_++;
  if (idle_ <= patience_.spins) return false;
  if (idle_ > patience_.spins + patience_.yields) return true;
  sched_yield();
  return false;
}

void Waiter::sleep(std::chrono::milliseconds limit) {
  polled_.push_back({bell_.descriptor(), POLLIN, 0});
  poll(polled_.data(), polled_.size(), int(limit.count()));
  if (polled_.back().revents) bell_.hush();
  polled_.clear();
  idle_ = 0;
}

}  // namespace anello
