// A world of threads with a proxy between every two ranks, for their control connections and for their data over TCP.
#pragma once
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "ring/base/check.hpp"
#include "ring/testing/run_world.hpp"
#include "ring/world/peer_info.hpp"
#include "tests/support/proxy.hpp"
#include "tests/support/worlds.hpp"

namespace anello {

class Proxied {
 public:
  explicit Proxied(int ranks) : ranks_(ranks), thread_([this] { context_.run(); }) {}
  ~Proxied() {
    context_.stop();
    thread_.join();
  }

  // Does the same as told_on_all_ranks().
  std::vector<Told> told(const Program& program, Settings settings = Settings::from_environment()) {
    settings.transport = "tcp";
    const auto seen = [this](int rank, std::vector<std::string> blobs) {
      return behind_proxies(rank, std::move(blobs));
    };
    return collect_told([&](const Program& telling) { run_world(ranks_, telling, settings, seen); }, ranks_, program);
  }

  // Returns the port of a further proxy for that listener. No rank uses this proxy.
  std::uint16_t further(const Proxy::Endpoint& target) {
    const std::lock_guard lock(mutex_);
    further_.push_back(std::make_shared<Proxy>(context_, target));
    return further_.back()->port();
  }

  // Sets the fault of present and later connections.
  void between(int a, int b, const Proxy::Fault& fault) {
    const std::lock_guard lock(mutex_);
    for (const Way& way : {Way(a, b), Way(b, a)}) {
      faults_[way] = fault;
      if (const auto found = proxies_.find(way); found != proxies_.end()) found->second->fault(fault);
    }
  }
  void everywhere(const Proxy::Fault& fault) {
    for (int a = 0; a < ranks_; a++)
      for (int b = a + 1; b < ranks_; b++) between(a, b, fault);
    const std::lock_guard lock(mutex_);
    for (const auto& proxy : further_) proxy->fault(fault);
  }

 private:
  // The rank with the higher number connects; any rank may ping any other.
  std::vector<std::string> behind_proxies(int rank, std::vector<std::string> blobs) {
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < ranks_; peer++) {
      std::string& blob = blobs[std::size_t(peer)];
      if (blob.empty() || peer == rank) continue;
      world::PeerInfo peer_info = world::decode_peer_info(blob);
      net::Endpoint& endpoint = peer_info.endpoint;
      const auto proxy =
          std::make_shared<Proxy>(context_, Proxy::Endpoint(asio::ip::make_address(endpoint.address), endpoint.port));
      proxy->fault(faults_[{rank, peer}]);
      ANELLO_CHECK(proxies_.emplace(Way(rank, peer), proxy).second);  // there is only one world
      endpoint.port = proxy->port();
      blob = encode(peer_info);
    }
    return blobs;
  }

  using Way = std::pair<int, int>;  // the connecting rank, and the rank that it connects to
  const int ranks_;
  std::mutex mutex_;
  std::map<Way, Proxy::Fault> faults_;
  asio::io_context context_;
  std::map<Way, std::shared_ptr<Proxy>> proxies_;
  std::vector<std::shared_ptr<Proxy>> further_;
  asio::executor_work_guard<asio::io_context::executor_type> open_{context_.get_executor()};
  std::thread thread_;
};

}  // namespace anello
