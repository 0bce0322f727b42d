// A process manager in memory, at least as strict as real ones: keys and values have the characters and lengths that
// PMI allows, each key may be put only once, and values are visible only after the fence.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <anello/error.hpp>
#include <barrier>
#include <cctype>
#include <map>
#include <mutex>
#include <string>

#include "rendezvous/join/key_value_space.hpp"

namespace anello::rendezvous {

class FakeManager {
 public:
  explicit FakeManager(int size) : size_(size), fence_(size, Merge{this}) {}
  int size() const { return size_; }
  void put(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(key.size() <= 32 &&
                std::ranges::all_of(key, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }))
        << key;
    EXPECT_TRUE(!value.empty() && value.size() <= 256 && std::ranges::all_of(value, [](unsigned char c) {
      return std::isgraph(c) && c != '=' && c != ';';
    })) << value;
    EXPECT_TRUE(put_.emplace(key, value).second && !seen_.contains(key)) << key << " is put twice";
  }
  void fence() { fence_.arrive_and_wait(); }
  std::string get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (!seen_.contains(key)) throw Error(ErrorCode::protocol, "no key " + key);
    return seen_[key];
  }

 private:
  struct Merge {
    FakeManager* all;
    void operator()() noexcept { all->seen_.merge(all->put_); }
  };
  const int size_;
  std::mutex mutex_;
  std::map<std::string, std::string> put_, seen_;
  std::barrier<Merge> fence_;
};

class FakeSpace : public KeyValueSpace {
 public:
  FakeSpace(FakeManager& manager, int rank) : manager_(manager), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return manager_.size(); }
  std::string name() const override { return "kvs_1"; }
  void put(const std::string& key, const std::string& value) override { manager_.put(key, value); }
  void fence() override { manager_.fence(); }
  std::string get(const std::string& key) override { return manager_.get(key); }

 private:
  FakeManager& manager_;
  const int rank_;
};

}  // namespace anello::rendezvous
