// A rank that writes lines of many lengths. Each line repeats one letter, which stands for the rank. The lines are
// written in pieces that end anywhere in a line. talker COUNT LONGEST PIECE
#include <unistd.h>

#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long count = std::atol(argv[1]), longest = std::atol(argv[2]);
  const std::size_t piece = std::size_t(std::atol(argv[3]));
  const int rank = std::atoi(std::getenv("ANELLO_RANK"));
  std::string text;
  for (long i = 0; i < count; i++) {
    const long length = (i * 7919 + rank * 104729) % longest;
    text += std::to_string(i) + ":" + std::to_string(length) + ":" +
            std::string(std::size_t(length), char('a' + rank)) + "\n";
  }
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = write(STDOUT_FILENO, text.data() + at, std::min(piece, text.size() - at));
    if (written < 0) return 1;
    at += std::size_t(written);
  }
}
