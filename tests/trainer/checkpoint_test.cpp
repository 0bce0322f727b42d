// Checkpoints: round trip, truncation at every byte, every flipped byte, and a checkpoint of another run.
#include "trainer/checkpoint.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <anello/error.hpp>

#include "scratch.hpp"
#include "trainer/checkpoint_lock.hpp"
#include "trainer/random.hpp"

namespace anello::trainer {
namespace {

using testing::HasSubstr;

const RunFacts kFacts = {.lasting = {{"--dataset", "digits"}, {"--seed", "7"}}, .adjustable = {{"--clip", "0.5"}}};
const Progress kProgress = {.epoch = 3, .step = 17, .trained = Metrics::of({1, 2, 3, 4, 5, 6, 7})};

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() {
    Random random(1, Stream::draws);
    for (float& value : parameters_) value = float(random.uniform());
    for (float& value : velocity_) value = float(random.uniform());
    write_checkpoint(path_, kFacts, kProgress, *backend_, written_);
  }
  std::string refusal(const Facts& facts = kFacts.lasting) {
    std::vector<float> parameters(parameters_.size(), -1), velocity(velocity_.size(), -1);
    const std::vector<std::span<float>> tensors = {parameters, velocity};
    try {
      read_checkpoint(path_, facts, *backend_, tensors);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::file);
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      EXPECT_THAT(parameters, testing::Each(-1));
      return error.what();
    }
    return "not refused";
  }

  Scratch scratch_;
  std::filesystem::path path_ = scratch_ / "run.checkpoint";
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  std::vector<float> parameters_ = std::vector<float>(37), velocity_ = std::vector<float>(11);
  std::vector<std::span<float>> written_ = {parameters_, velocity_};
};

TEST_F(Checkpoint, ComesBackAsItWas) {
  std::vector<float> parameters(37), velocity(11);
  const std::vector<std::span<float>> tensors = {parameters, velocity};
  const Residuals residuals = {parameters_, std::vector<float>(37, 0.5F)};
  write_checkpoint(path_, kFacts, kProgress, *backend_, written_, residuals);
  const SavedState saved = read_checkpoint(path_, kFacts.lasting, *backend_, tensors);
  EXPECT_EQ(saved.progress.epoch, 3U);
  EXPECT_EQ(saved.progress.step, 17U);
  EXPECT_EQ(saved.progress.trained.sums(), kProgress.trained.sums());
  EXPECT_EQ(saved.adjustable, kFacts.adjustable);
  EXPECT_EQ(saved.residuals, residuals);
  EXPECT_EQ(parameters, parameters_);
  EXPECT_EQ(velocity, velocity_);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1) << "left something behind";
}

TEST_F(Checkpoint, RefusesEveryTruncation) {
  const std::string whole = bytes_of(path_);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes++) {
    scratch_.put("run.checkpoint", whole.substr(0, bytes));
    EXPECT_THAT(refusal(), testing::AnyOf(HasSubstr("cut off"), HasSubstr("only the beginning"))) << bytes;
  }
  scratch_.put("run.checkpoint", whole + "x");
  EXPECT_THAT(refusal(), HasSubstr("damaged or cut off"));
}

TEST_F(Checkpoint, RefusesFlippedBits) {
  const std::string whole = bytes_of(path_);
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 3) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
    scratch_.put("run.checkpoint", flipped);
    EXPECT_NE(refusal(), "not refused") << "bit " << bit;
  }
}

TEST_F(Checkpoint, RefusesAnotherRun) {
  EXPECT_THAT(refusal({{"--dataset", "digits"}, {"--seed", "8"}}),
              HasSubstr("was written with --seed 7, this run has --seed 8; use the same, or leave out --resume"));
  EXPECT_THAT(refusal({{"--dataset", "digits"}, {"--seed", "7"}, {"--hidden", "8"}}),
              HasSubstr("does not say its --hidden"));
  written_.pop_back();
  write_checkpoint(path_, kFacts, kProgress, *backend_, written_);
  EXPECT_THAT(refusal(), HasSubstr("holds 1 tensors, 2 expected"));
  written_ = {velocity_, parameters_};
  write_checkpoint(path_, kFacts, kProgress, *backend_, written_);
  EXPECT_THAT(refusal(), HasSubstr("holds a tensor of 11 elements, 37 expected"));
}

TEST_F(Checkpoint, RefusesWhatIsNone) {
  scratch_.put("run.checkpoint", std::string(100, 'x'));
  EXPECT_THAT(refusal(), HasSubstr("is not a checkpoint"));
  std::filesystem::remove(path_);
  EXPECT_THAT(refusal(), HasSubstr("cannot be opened: No such file"));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(refusal(), HasSubstr("cannot be opened"));
}

TEST_F(Checkpoint, ReplacesAtOnceOrNotAtAll) {
  const std::string before = bytes_of(path_);
  std::filesystem::create_directory(path_.string() + ".part");  // blocks the name of the temporary file
  EXPECT_THROW(write_checkpoint(path_, kFacts, kProgress, *backend_, written_), Error);
  EXPECT_EQ(bytes_of(path_), before);
}

TEST_F(Checkpoint, IsLockedWhileItsTrainingRuns) {
  const std::string lock = path_.string() + ".lock";
  {
    const CheckpointLock held(path_, "h0");
    EXPECT_EQ(held.missing(), "");
    try {
      const CheckpointLock second(path_, "h1");
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("checkpoint '" + path_.string() +
                                          "' is being written by another training, "
                                          "process " +
                                          std::to_string(getpid()) + " on h0; end that one or give"));
    }
    EXPECT_NO_THROW(CheckpointLock(scratch_ / "other", "h0"));
  }
  EXPECT_FALSE(std::filesystem::exists(lock)) << "left something behind";
  scratch_.put("run.checkpoint.lock", "process 1 on a host where it was killed\n");
  EXPECT_NO_THROW(CheckpointLock(path_, "h0"));
}

TEST_F(Checkpoint, SaysEarlyThatItCannotBeWritten) {
  EXPECT_NO_THROW(require_writable(scratch_ / "new"));
  EXPECT_NO_THROW(require_writable("new"));
  for (const std::filesystem::path& path : {scratch_.path(), scratch_ / "missing" / "new"}) try {
      require_writable(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("checkpoint '" + path.string() + "' cannot be written"));
    }
}

}  // namespace
}  // namespace anello::trainer
