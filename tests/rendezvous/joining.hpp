// Ranks that join a server, each in a thread.
#pragma once
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ring/base/text.hpp"

namespace anello {

// A limit that suffices on a busy machine; no test really waits so long.
inline constexpr std::chrono::milliseconds kPatience{30000};

inline Settings joining(std::uint16_t port, int size, int rank = -1) {
  Settings settings;
  settings.rendezvous = text("127.0.0.1:", port);
  settings.size = size;
  settings.rank = rank;
  settings.start_timeout = kPatience;
  return settings;
}

// Returns the error text of each of `ranks` threads, or an empty string.
inline std::vector<std::string> together(int ranks, const std::function<void(int)>& program) {
  std::vector<std::future<std::string>> threads;
  threads.reserve(std::size_t(ranks));
  for (int i = 0; i < ranks; i++)
    threads.push_back(std::async(std::launch::async, [&program, i]() -> std::string {
      try {
        program(i);
        return {};
      } catch (const Error& error) {
        return error.what();
      }
    }));
  std::vector<std::string> thrown;
  thrown.reserve(threads.size());
  for (auto& thread : threads) thrown.push_back(thread.get());
  return thrown;
}

inline bool eventually(const std::function<bool()>& condition) {
  for (const auto end = std::chrono::steady_clock::now() + kPatience; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace anello
