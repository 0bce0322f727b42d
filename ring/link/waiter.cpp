#include "ring/link/waiter.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <anello/error.hpp>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "ring/base/text.hpp"
#include "ring/link/bell.hpp"

namespace anello {
namespace {

constexpr std::chrono::microseconds kSpin{200};
constexpr int kRoundsPerLook = 16;
constexpr std::chrono::microseconds kYieldToNobody{3};  // at most; two switches take longer

std::chrono::nanoseconds yield() {
  const auto began = std::chrono::steady_clock::now();
  sched_yield();
  return std::chrono::steady_clock::now() - began;
}

}  // namespace

Bell::Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw Error(ErrorCode::network,
                text("eventfd: ", std::system_category().message(errno), "; is `ulimit -n` reached?"));
}
Bell::~Bell() {
  close(descriptor_);
}

void Bell::ring() noexcept {
  ring_bell(descriptor_);
}

void Bell::hush() noexcept {
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = read(descriptor_, &rings, sizeof rings);
}

WaitPolicy WaitPolicy::of(int spin_us, int yields, bool shares_cores) {
  WaitPolicy patience;
  if (!shares_cores) patience.spin = kSpin;
  if (spin_us >= 0) patience.spin = std::chrono::microseconds(spin_us);
  if (yields >= 0) patience.yields = yields;
  return patience;
}

// Others may want the core that was thought to be this rank's own: another program's process, then perhaps even the
// rank that is waited for. A yield that takes long has found one of them, and spinning would only keep them away; one
// that returns at once has found nobody.
bool Waiter::pause() {
  if (!spun_ && !core_is_wanted_ && spin_on()) return false;
  if (yields_ == patience_.yields) return true;
  if (yields_++ == 0) core_is_wanted_ = false;
  if (yield() > kYieldToNobody) core_is_wanted_ = true;
  return false;
}

// Looking at the clock costs as much as a round, so it is done in one of many.
bool Waiter::spin_on() {
  if (patience_.spin.count() > 0) {
    if (++spins_ % kRoundsPerLook != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (spins_ == kRoundsPerLook) began_ = now;
    if (now - began_ < patience_.spin) return true;
  }
  spun_ = true;
  return false;
}

void Waiter::sleep(std::chrono::milliseconds limit) {
  polled_.push_back({bell_.descriptor(), POLLIN, 0});
  poll(polled_.data(), polled_.size(), int(limit.count()));
  if (polled_.back().revents) bell_.hush();
  polled_.clear();
  moved();
}

}  // namespace anello
