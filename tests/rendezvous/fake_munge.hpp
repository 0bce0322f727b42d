// A munge daemon (munged) in memory, at least as strict as the real daemon: it decodes a credential once on each host,
// only for its user, and only if the credential is complete.
#pragma once
#include <algorithm>
#include <anello/error.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/join/munge.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {

class FakeMunged {
 public:
  struct Content {
    int user;
    std::string text;
  };

  std::string encode(int user, const std::string& content) {
    const std::lock_guard lock(mutex_);
    std::string credential = text("MUNGE:", credentials_.size(), ":");
    credentials_[credential] = {user, content};
    return credential;
  }
  std::string decode(int user, const std::string& credential, int host) {
    const std::lock_guard lock(mutex_);
    const auto at = credentials_.find(credential);
    if (at == credentials_.end()) throw Error(ErrorCode::unauthorized, "munge: Invalid credential");
    if (at->second.user != user) throw Error(ErrorCode::unauthorized, "munge: Unauthorized credential");
    if (!decoded_.emplace(credential, host).second) throw Error(ErrorCode::unauthorized, "munge: Replayed credential");
    return at->second.text;
  }

  // Counts the credentials of this user so far.
  long made_by(int user) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count_if(credentials_, [user](const auto& one) { return one.second.user == user; });
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Content> credentials_;
  std::set<std::pair<std::string, int>> decoded_;
};

class FakeMunge : public Munge {
 public:
  FakeMunge(FakeMunged& munged, int user) : munged_(munged), user_(user) {}
  std::string encode(const std::string& content) override { return munged_.encode(user_, content); }
  std::string decode(const std::string& credential) override { return munged_.decode(user_, credential, 0); }

 private:
  FakeMunged& munged_;
  const int user_;
};

}  // namespace anello::rendezvous
