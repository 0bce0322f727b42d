#include "ring/net/auth.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <filesystem>
#include <fstream>

namespace anello::net {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Secret : public testing::Test {
 protected:
  Secret() { std::filesystem::create_directories(folder_); }
  ~Secret() override { std::filesystem::remove_all(folder_); }

  std::string file(std::string_view contents, mode_t mode = 0600) {
    std::string path = (folder_ / "secret").string();
    std::ofstream(path, std::ios::binary) << contents;
    chmod(path.c_str(), mode);
    return path;
  }
  static std::string from_file(const std::string& path) {
    Settings settings;
    settings.secret_file = path;
    return read_secret(settings);
  }
  static std::string from_descriptor(int fd) {
    Settings settings;
    settings.secret_fd = fd;
    return read_secret(settings);
  }
  template <class Call>
  static std::string message(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  }
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("anello_auth_" + std::to_string(getpid()));
};

TEST_F(Secret, IsEmptyWhenNoneIsGiven) {
  EXPECT_EQ(read_secret(Settings{}), "");
}

TEST_F(Secret, ComesFromAFileWithoutItsNewline) {
  EXPECT_EQ(from_file(file("open sesame\n")), "open sesame");
  EXPECT_EQ(from_file(file("two\n\n")), "two\n");
  EXPECT_EQ(from_file(file(std::string(kMaxSecretBytes, 'x') + "\n")).size(), kMaxSecretBytes);
}

// A container gets from its host a secret's file that belongs to another user, and that the container's group may read.
TEST_F(Secret, AnothersFileMayBeReadableByItsGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string path = file("open sesame", 0640);
  ASSERT_EQ(chown(path.c_str(), 5077, 0), 0);
  EXPECT_EQ(from_file(path), "open sesame");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(message([&] { from_file(path); }), HasSubstr("chmod 600"));
}

TEST_F(Secret, BadFilesAreRefusedByName) {
  const auto refusal = [](const std::string& path) { return message([&] { from_file(path); }); };
  EXPECT_THAT(refusal("/nowhere/secret"), HasSubstr("ANELLO_SECRET_FILE='/nowhere/secret': No such file"));
  EXPECT_THAT(refusal(file("")), HasSubstr("the secret is empty"));
  EXPECT_THAT(refusal(file("\n")), HasSubstr("the secret is empty"));
  EXPECT_THAT(refusal(file(std::string(kMaxSecretBytes + 1, 'x'))), HasSubstr("longer than 4096"));
  EXPECT_THAT(refusal(file(std::string(1 << 20, 'x'))), HasSubstr("longer than 4096"));
  for (const mode_t mode : {0644, 0640, 0620, 0604})
    EXPECT_THAT(refusal(file("open sesame", mode)), HasSubstr("chmod 600")) << mode;
  EXPECT_THAT(refusal(folder_.string()), HasSubstr("not a regular file"));
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal(fifo), HasSubstr("not a regular file"));
}

// The test needs descriptors with new numbers, because a process reads a secret from each number only once.
TEST_F(Secret, ComesFromADescriptorOnceAndClosesIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int fd = fcntl(ends[0], F_DUPFD, 200);
  close(ends[0]);
  ASSERT_EQ(write(ends[1], "from a pipe\n", 12), 12);
  close(ends[1]);
  EXPECT_EQ(from_descriptor(fd), "from a pipe");
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  EXPECT_EQ(from_descriptor(fd), "from a pipe");
}

TEST_F(Secret, ASharedFileIsReadFromItsStart) {
  const int opened = open(file("shared").c_str(), O_RDONLY);
  const int first = fcntl(opened, F_DUPFD, 210), second = fcntl(opened, F_DUPFD, 220);
  close(opened);
  EXPECT_EQ(from_descriptor(first), "shared");
  EXPECT_EQ(from_descriptor(second), "shared");
}

TEST_F(Secret, BadDescriptorsAreRefusedByNumber) {
  EXPECT_THAT(message([] { from_descriptor(4000); }),
              AllOf(HasSubstr("ANELLO_SECRET_FD=4000: the descriptor is not open"),
                    HasSubstr("`env -u ANELLO_RENDEZVOUS -u ANELLO_RANK ANELLO_SIZE=1`")));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int fd = fcntl(ends[0], F_DUPFD, 230);
  close(ends[0]);
  ASSERT_EQ(write(ends[1], "and no end", 10), 10);
  EXPECT_THAT(message([&] { from_descriptor(fd); }), HasSubstr("no end of the secret within 2000 ms"));
  close(ends[1]);
}

TEST(Auth, ComparesWholeStrings) {
  EXPECT_TRUE(same_bytes("", ""));
  EXPECT_TRUE(same_bytes("abc", "abc"));
  EXPECT_FALSE(same_bytes("abc", "abd"));
  EXPECT_FALSE(same_bytes("abc", "abcd"));
  EXPECT_FALSE(same_bytes("\x80", std::string_view("\0", 1)));
}

TEST(Auth, RandomBytesDiffer) {
  EXPECT_EQ(random_bytes(kNonceBytes).size(), kNonceBytes);
  EXPECT_NE(random_bytes(kNonceBytes), random_bytes(kNonceBytes));
  EXPECT_EQ(random_bytes(0), "");
}

}  // namespace
}  // namespace anello::net
