// A FailureDetector must stay consistent, whatever bytes it receives.
#include "ring/failure/failure_detector.hpp"

#include <gmock/gmock.h>

#include "tests/support/assembly.hpp"
#include "tests/support/signatures.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;

// Returns a message of each type, as a rank sends it.
std::vector<std::string> sample_messages() {
  Assembly assembly(4, 1);
  assembly.begin(2, operation(0, 5));
  assembly[2].waiting(operation(0, 5), assembly.now());
  assembly[2].stalled(operation(0, 5), milliseconds(60000), assembly.now());
  assembly[2].tick(assembly.now() + milliseconds(1000));
  assembly[2].slow({.rank = 3, .own = milliseconds(900), .theirs = milliseconds(20), .period = milliseconds(1000)},
                   assembly.now());
  assembly[2].leave(0, 1);
  assembly[2].propose(Verdict{ErrorCode::aborted, 2, "enough"}, assembly.now());
  std::vector<std::string> messages = assembly[2].take_outbox();
  for (const std::string& message : std::vector(messages)) assembly[3].receive(message, assembly.now());
  for (std::string& message : assembly[3].take_outbox())
    if (decode_control_message(message, 4).type == ControlMessage::Type::answer) messages.push_back(std::move(message));
  assembly[0].propose(Verdict{ErrorCode::aborted, 0, "enough"}, assembly.now());
  for (std::string& message : assembly[0].take_outbox()) messages.push_back(std::move(message));
  EXPECT_EQ(messages.size(), 8);
  return messages;
}

// If the bytes are not a message, the detector must throw an error, change nothing and pass nothing on. If it accepts
// them, they must do no harm.
void expect_bounded(const std::string& bytes) {
  FailureDetector detector(1, Assembly::host_names(4), [](auto, auto) { return std::nullopt; });
  try {
    detector.receive(bytes, milliseconds(0));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::protocol) << e.what();
    EXPECT_FALSE(detector.verdict());
    EXPECT_FALSE(detector.due());
    EXPECT_TRUE(detector.take_outbox().empty()) << "passed on: " << e.what();
    return;
  }
  if (detector.verdict()) {
    EXPECT_NE(name(detector.verdict()->code), "?");
    EXPECT_GE(detector.verdict()->culprit, -1);
    EXPECT_LT(detector.verdict()->culprit, 4);
  }
}

TEST(FailureDetector, MessagesThatAreCutShortOrTooLongAreRejected) {
  FailureDetector detector(1, Assembly::host_names(4), [](auto, auto) { return std::nullopt; });
  for (const std::string& message : sample_messages()) {
    for (std::size_t length = 0; length < message.size(); length++) expect_bounded(message.substr(0, length));
    expect_bounded(message + "x");
    EXPECT_THROW(detector.receive(message + "x", milliseconds(0)), Error);
    EXPECT_THROW(detector.receive(message.substr(0, message.size() - 1), milliseconds(0)), Error);
    EXPECT_NO_THROW(detector.receive(message, milliseconds(0)));
  }
}

TEST(FailureDetector, FlippedBitsAndNoiseAreHarmless) {
  for (const std::string& message : sample_messages())
    for (std::size_t bit = 0; bit < 8 * message.size(); bit++) {
      std::string flipped = message;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
      expect_bounded(flipped);
    }
  Random random(1);
  for (int k = 0; k < 3000; k++) {
    std::string noise(random.below(100), '\0');
    for (char& c : noise) c = char(random.next());
    if (noise.size() > 9 && random.percent(50))
      noise.replace(0, 9, std::string("\1\0\0\0\7\0\0\0", 8) + char(random.below(9)));
    expect_bounded(noise);
  }
}

}  // namespace
}  // namespace anello::failure
