// The log of the server while ranks join.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "rendezvous/client/client.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

// Redirects standard error to a file while this object lives.
class LoggedFile {
 public:
  LoggedFile() : before_(dup(STDERR_FILENO)) {
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
    set_log(Severity::info, "rendezvous");
  }
  ~LoggedFile() {
    set_log(Severity::warning, "");
    dup2(before_, STDERR_FILENO);
    close(before_);
  }
  LoggedFile(const LoggedFile&) = delete;
  LoggedFile& operator=(const LoggedFile&) = delete;

  bool comes_to_hold(const std::string& part) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (bytes_of(path_).find(part) == std::string::npos && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return bytes_of(path_).find(part) != std::string::npos;
  }
  std::string content() const { return bytes_of(path_); }

 private:
  const Scratch scratch_;
  const std::filesystem::path path_ = scratch_ / "log";
  const int before_;
};

TEST(RendezvousLog, SaysWhoHasComeAndWhoIsMissing) {
  const LoggedFile log;
  const RendezvousServer server({.size = 2, .remind_after = std::chrono::milliseconds(20)});
  const auto meet = [&](int rank) {
    Settings settings;
    settings.rendezvous = text("127.0.0.1:", server.port());
    settings.size = 2;
    settings.rank = rank;
    RendezvousClient(settings, "").leave();
  };
  auto first = std::async(std::launch::async, meet, 0);
  EXPECT_TRUE(log.comes_to_hold("anello: rendezvous: warning: waiting: 1 of 2 ranks have joined; missing rank 1\n"));
  meet(1);
  first.get();
  EXPECT_TRUE(log.comes_to_hold(") has joined from 127.0.0.1\n")) << log.content();
  EXPECT_TRUE(log.comes_to_hold("info: rank 1 (")) << log.content();
  EXPECT_TRUE(log.comes_to_hold("info: all 2 ranks are here")) << log.content();
}

}  // namespace
}  // namespace anello
