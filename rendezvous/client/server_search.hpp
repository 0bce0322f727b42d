// Looks for a job's server at several addresses at once, so that an address without an answer does not delay the
// others: each address has its own limit and pauses. One thread, which find() blocks.
#pragma once
#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/protocol/resolve.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

struct SearchOptions {
  std::vector<net::HostPort> addresses;
  // Finds out whether the other end of a connected socket is the job's server. If it is, the coroutine completes;
  // otherwise it throws Error. With one address, an error other than Error{network} ends the search.
  std::function<asio::awaitable<void>(asio::ip::tcp::socket&)> prove;
  std::string name;  // the server's name, for a warning after 5 s
  // True if the server has listened before. Then it has ended if all addresses refuse connections.
  bool ends_if_refused = false;
  std::vector<asio::ip::tcp::endpoint> (*look_up)(const std::string&, std::uint16_t, asio::error_code&) = resolve;
};

class ServerSearch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Outcome { found, ended, not_found };

  // `context` is run by find() only.
  ServerSearch(asio::io_context& context, SearchOptions options);
  ServerSearch(const ServerSearch&) = delete;
  ServerSearch& operator=(const ServerSearch&) = delete;

  // Blocks until the server is found, or until the deadline. An address that refuses connections is tried again after
  // half a second at most, every other address after two seconds at most. Throws the error of `prove` if that ends the
  // search, and the errors of Interruption::check().
  Outcome find(Clock::time_point deadline);

  // Call this once, after find() has returned Outcome::found.
  asio::ip::tcp::socket take() { return std::move(found_->socket); }
  std::string tried() const;  // every address with its last error

 private:
  struct Place {
    Place(asio::io_context& context, const std::string& its_host, const asio::ip::tcp::endpoint& at)
        : host(its_host), where(at), socket(context), rest(context) {}
    const std::string host;  // the host as SearchOptions::addresses has it
    const asio::ip::tcp::endpoint where;
    asio::ip::tcp::socket socket;
    asio::steady_timer rest;
    std::chrono::milliseconds patience{500};
    std::string failure;  // why the last attempt to connect failed; empty: no attempt has failed yet
    bool refused = false;
  };
  struct Name {  // a host's name
    Clock::time_point looked_up{};
    std::string failure;
  };

  asio::awaitable<void> look_around();
  asio::awaitable<void> add_places();
  asio::awaitable<void> add_place(std::string host, asio::ip::tcp::endpoint where);
  asio::awaitable<void> keep_trying(Place& place);
  asio::awaitable<void> attempt(Place& place, std::chrono::milliseconds limit);
  asio::awaitable<void> connect(Place& place);
  void failed(Place& place, const std::string& why, bool late, bool cut_short);
  bool has_ended();
  void stop();
  std::function<void(std::exception_ptr)> keep_error();

  asio::io_context& context_;
  const SearchOptions options_;
  asio::steady_timer turn_;
  Clock::time_point deadline_;
  std::map<std::string, Name> names_;
  std::deque<Place> places_;
  Place* found_ = nullptr;
  bool all_added_ = false, over_ = false, ended_ = false;
  std::exception_ptr thrown_;
};

}  // namespace anello::rendezvous
