#include "rendezvous/protocol/interruption.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <thread>
#include <utility>

namespace anello::rendezvous {
namespace {

thread_local const Interruption* installed = nullptr;

}  // namespace

Interruption::Interruption(std::function<bool()> asked)
    : asked_(std::move(asked)), outer_(std::exchange(installed, this)) {}

Interruption::~Interruption() {
  installed = outer_;
}

bool Interruption::asked() {
  return installed && installed->asked_();
}

void Interruption::check() {
  if (asked()) throw Error(ErrorCode::aborted, "init() was interrupted");
}

void Interruption::sleep(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto left = time; left.count() > 0;
       left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())) {
    check();
    std::this_thread::sleep_for(slice(left));
  }
  check();
}

std::chrono::milliseconds Interruption::slice(std::chrono::milliseconds wait) {
  return installed ? std::min(wait, kSlice) : wait;
}

}  // namespace anello::rendezvous
