// Which flight files are removed, and when, if many jobs' files are in one folder.
#include "ring/world/flight_files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "ring/base/descriptor.hpp"
#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"

namespace anello::world {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using testing::ElementsAre;

constexpr hours kCentury{24 * 365 * 100};

std::string file_of(const std::string& job, const std::string& rank = "0") {
  return text("anello-flight.", geteuid(), ".", job, ".rank", rank, ".json");
}

// Sets the file's time to `age` before now, or after now if `age` is negative.
void put(const Scratch& scratch, const std::string& name, hours age) {
  fs::last_write_time(scratch.put(name, "{}"), fs::file_time_type::clock::now() - age);
}
void put_jobs(const Scratch& scratch, int jobs) {
  for (int job = 1; job <= jobs; job++) put(scratch, file_of(text("job", job)), hours(job));
}

std::string save(const Scratch& scratch) {
  testing::internal::CaptureStderr();
  save_flight("{}", scratch.path(), {.job = "own", .host = "here"});
  return testing::internal::GetCapturedStderr();
}

TEST(FlightFiles, OfThisJobAreKeptBesideFilesOfTheFuture) {
  const Scratch scratch;
  for (int job = 1; job <= 12; job++) put(scratch, file_of(text("future", job)), -kCentury - hours(job));
  put(scratch, file_of("own", "1"), hours(1000));
  EXPECT_THAT(save(scratch), testing::HasSubstr("the last operations of the ranks on here are in"));
  EXPECT_TRUE(fs::exists(scratch / file_of("own")));
  EXPECT_TRUE(fs::exists(scratch / file_of("own", "1")));
  for (int job = 1; job <= 12; job++) EXPECT_EQ(fs::exists(scratch / file_of(text("future", job))), job > 3) << job;
}

TEST(FlightFiles, AreNotThoseThatAUserHasNamed) {
  const Scratch scratch;
  put_jobs(scratch, 9);
  const std::vector<std::string> named = {file_of("run-7", "0.annotated"), file_of("run-7", ""),
                                          file_of("run-7", "x"),           file_of("run-7.old"),
                                          file_of("run-7") + ".json",      file_of("run-7") + "~"};
  for (const std::string& name : named) put(scratch, name, kCentury);
  save(scratch);
  for (const std::string& name : named) EXPECT_TRUE(fs::exists(scratch / name)) << name;
  EXPECT_TRUE(fs::exists(scratch / file_of("job9")));
}

TEST(FlightFiles, AreNotWhatLinksAndFoldersAreCalled) {
  const Scratch scratch;
  put_jobs(scratch, 9);
  put(scratch, "data.json", -kCentury);
  fs::create_symlink(scratch / "data.json", scratch / file_of("link"));
  fs::create_directory(scratch / file_of("folder"));
  fs::last_write_time(scratch / file_of("folder"), fs::file_time_type::clock::now() - kCentury);
  save(scratch);
  EXPECT_TRUE(fs::is_symlink(scratch / file_of("link")));
  EXPECT_TRUE(fs::exists(scratch / file_of("folder")));
  EXPECT_TRUE(fs::exists(scratch / file_of("job9")));
}

TEST(FlightFiles, OfOtherUsersDoNotCountWhateverTheirNames) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const Scratch scratch;
  put_jobs(scratch, 9);
  for (int job = 1; job <= 10; job++) {
    put(scratch, file_of(text("foreign", job)), -kCentury);
    ASSERT_EQ(chown((scratch / file_of(text("foreign", job))).c_str(), 65534, 65534), 0);
  }
  put(scratch, file_of("ancient"), kCentury);
  save(scratch);
  for (int job = 1; job <= 9; job++) EXPECT_TRUE(fs::exists(scratch / file_of(text("job", job)))) << job;
  for (int job = 1; job <= 10; job++) EXPECT_TRUE(fs::exists(scratch / file_of(text("foreign", job)))) << job;
  EXPECT_FALSE(fs::exists(scratch / file_of("ancient")));
}

// Returns the names of the files in the order in which they were written or removed.
std::vector<std::string> names_in(const Descriptor& events) {
  std::vector<std::string> names;
  char bytes[4096];
  const ssize_t size = read(events.get(), bytes, sizeof bytes);
  for (ssize_t at = 0; at < size;) {
    inotify_event event;
    std::memcpy(&event, bytes + at, sizeof event);
    names.emplace_back(bytes + at + sizeof event);
    at += ssize_t(sizeof event + event.len);
  }
  return names;
}

// The folder may be so slow that the process ends while it looks for old files.
TEST(FlightFiles, AreNamedBeforeOldOnesAreLookedFor) {
  const Scratch scratch;
  put_jobs(scratch, 10);
  const Descriptor message(open((scratch / "message").c_str(), O_CREAT | O_WRONLY, 0600));
  const Descriptor standard_error(dup(STDERR_FILENO));
  const Descriptor events(inotify_init1(IN_NONBLOCK));
  ASSERT_TRUE(message && standard_error && events);
  ASSERT_GE(inotify_add_watch(events.get(), scratch.path().c_str(), IN_MODIFY | IN_DELETE), 0);
  dup2(message.get(), STDERR_FILENO);
  save_flight("", scratch.path(), {.job = "own"});
  dup2(standard_error.get(), STDERR_FILENO);
  EXPECT_THAT(names_in(events), ElementsAre("message", file_of("job10")));
}

}  // namespace
}  // namespace anello::world
