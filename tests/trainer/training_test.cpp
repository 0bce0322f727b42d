// The whole loop in worlds of threads: the loss curve is equal for any number of ranks.
#include <gmock/gmock.h>

#include <anello/testing.hpp>
#include <atomic>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scratch.hpp"
#include "tests/support/algorithms.hpp"
#include "trainer/train.hpp"

namespace anello::trainer {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Arguments = std::vector<std::string>;

class Training : public testing::Test {
 protected:
  // Returns the lines of the log; rank 0's output is in said_.
  std::vector<Json> train_on(int ranks, Arguments arguments, int columns = 0) {
    for (const std::string& also : {std::string("anello-train"), std::string("--log"), log_.string(),
                                    std::string("--data"), std::string(ANELLO_TEST_DIGITS)})
      arguments.insert(also == "anello-train" ? arguments.begin() : arguments.end(), also);
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const TrainOptions options = parse_options(int(argv.size()), argv.data());
    std::ostringstream out;
    run_world(
        ranks,
        [&](World& world) {
          const std::atomic<bool> stop = world.rank() == asked_to_stop_;
          if (train(world, options, out, columns, stop) == Ending::stopped) stopped_++;
        },
        settings_);
    said_ = out.str();
    std::ifstream log(log_);
    std::vector<Json> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  std::string refusal(int ranks, const Arguments& arguments) {
    try {
      train_on(ranks, arguments);
    } catch (const Error& error) {
      return error.what();
    }
    return "not refused";
  }

  Settings settings_;
  Scratch scratch_;
  std::filesystem::path log_ = scratch_ / "log";
  std::string said_;
  int asked_to_stop_ = -1;  // this rank is asked to stop, from the beginning
  std::atomic<int> stopped_ = 0;
};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_same_curve(const std::vector<Json>& a, const std::vector<Json>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); i++) {
    if (a[i].at("event") != "epoch") continue;
    EXPECT_EQ(a[i].at("epoch"), b[i].at("epoch"));
    EXPECT_EQ(a[i].at("learning_rate"), b[i].at("learning_rate"));
    EXPECT_EQ(a[i].at("samples_hash"), b[i].at("samples_hash"));
    for (const char* loss : {"train_loss", "test_loss"}) {
      const double x = a[i].at(loss), y = b[i].at(loss);
      EXPECT_LT(std::abs(x - y) / y, 1e-4) << loss << " of epoch " << a[i].at("epoch");
    }
  }
}

class Curve : public Training, public testing::WithParamInterface<const char*> {};

TEST_P(Curve, IsTheSameOnAnyNumberOfRanks) {
  const Arguments arguments = {"--global-batch", GetParam(), "--epochs", "3", "--seed", "7"};
  const auto alone = train_on(1, arguments);
  ASSERT_EQ(alone.size(), 4U);
  for (const int ranks : {2, 3, 4, 7, 8}) {
    SCOPED_TRACE(ranks);
    expect_same_curve(train_on(ranks, arguments), alone);
  }
}

// Most numbers of ranks divide 96, and few divide 100. After a batch of 1437 of the 1438 samples, one rank has one
// sample and the others have none.
INSTANTIATE_TEST_SUITE_P(GlobalBatches, Curve, testing::Values("96", "100", "1437"),
                         [](const auto& batch) { return std::string(batch.param); });

// A batch of 96 samples is processed once in one pass, and once in three passes over thirds of each rank's share.
TEST_F(Training, AccumulatedPassesAreOneLargeBatch) {
  const Arguments arguments = {"--global-batch", "96", "--epochs", "3", "--seed", "7"};
  const auto whole = train_on(2, arguments);
  Arguments passes = arguments;
  passes.insert(passes.end(), {"--accumulate", "3"});
  const auto parts = train_on(2, passes);
  ASSERT_EQ(parts.size(), whole.size());
  for (std::size_t i = 0; i + 1 < whole.size(); i++)
    for (const char* loss : {"train_loss", "test_loss"}) {
      const double x = whole[i].at(loss), y = parts[i].at(loss);
      EXPECT_LT(std::abs(x - y) / x, 1e-6) << loss << " of epoch " << i + 1;
    }
}

// The limit is so small that every step is scaled down. One rank and four ranks must have the same curve, which must
// differ from the curve without the limit.
TEST_F(Training, ClipsAsOneRankWould) {
  const Arguments free = {"--global-batch", "96", "--epochs", "3", "--seed", "7"};
  Arguments clipped = free;
  clipped.insert(clipped.end(), {"--clip", "0.05"});
  const auto alone = train_on(1, clipped);
  expect_same_curve(train_on(4, clipped), alone);
  EXPECT_GT(alone.at(0).at("train_loss").get<double>(), 1.01 * train_on(1, free).at(0).at("train_loss").get<double>());
}

// In reproducible mode the parameters at the end have the same bits, for every algorithm, bucket and transport.
TEST_F(Training, HasTheSameBitsByEveryAlgorithmBucketAndTransport) {
  const Arguments arguments = {"--epochs", "1", "--clip", "1", "--hidden", "128,64"};
  settings_.reproducible = 1;
  std::map<std::string, std::string> hashes;  // the ways that lead to each hash
  const auto go = [&](const std::string& way) {
    const std::string hash = train_on(4, arguments).back().at("parameter_hash");
    hashes[hash] += way + "; ";
  };
  for (const std::string& algorithm : and_auto(algorithms_if([](Algorithm each) { return reproducible(each); })))
    for (const int bucket_bytes : {64 << 10, 1 << 20, 25 << 20})
      for (const std::string transport : {"tcp", "shm"}) {
        settings_.algorithm = algorithm;
        settings_.bucket_bytes = bucket_bytes;
        settings_.transport = transport;
        go(algorithm + ", " + std::to_string(bucket_bytes) + ", " + transport);
      }
  settings_ = {};
  settings_.reproducible = 1;
  for (int again = 0; again < 10; again++) go("again");
  EXPECT_EQ(hashes.size(), 1u) << testing::PrintToString(hashes);
}

TEST_F(Training, ReachesTheAccuracyItPromises) {
  const auto log = train_on(4, {});
  EXPECT_GE(log.back().at("test_accuracy").get<double>(), 0.96);
}

TEST_F(Training, LogsWhatItPromises) {
  const auto log = train_on(2, {"--epochs", "2"});
  ASSERT_EQ(log.size(), 3U);
  const auto keys = [](const Json& line) {
    std::vector<std::string> names;
    for (const auto& [name, value] : line.items()) names.push_back(name);
    return names;
  };
  EXPECT_THAT(keys(log[0]), testing::ElementsAre("event", "time", "epoch", "train_loss", "test_loss", "test_accuracy",
                                                 "samples_per_second", "communication_share", "exposed_ms_per_step",
                                                 "hidden_ms_per_step", "learning_rate", "samples_hash"));
  EXPECT_THAT(keys(log[2]), testing::ElementsAre("event", "test_accuracy", "parameter_hash", "world"));
  EXPECT_EQ(log[0].at("epoch"), 1);
  EXPECT_EQ(log[1].at("epoch"), 2);
  EXPECT_EQ(log[2].at("event"), "end");
  EXPECT_EQ(log[2].at("world"), 2);
  EXPECT_EQ(log[2].at("parameter_hash").get<std::string>().size(), 16U);
  EXPECT_EQ(log[2].at("test_accuracy"), log[1].at("test_accuracy"));
  for (const char* share : {"test_accuracy", "communication_share"}) {
    EXPECT_GT(log[0].at(share).get<double>(), 0) << share;
    EXPECT_LT(log[0].at(share).get<double>(), 1) << share;
  }
  EXPECT_THAT(said_, HasSubstr("training on 2 ranks, 1 host"));
  EXPECT_THAT(said_, HasSubstr("epoch 2/2"));
  EXPECT_THAT(said_, HasSubstr(log[2].at("parameter_hash").get<std::string>() + " on all 2 ranks"));
}

TEST_F(Training, RateGrowsWithTheWorldUnlessTheGlobalBatchIsGiven) {
  const auto rate = [&](int ranks, const char* batch) {
    return train_on(ranks, {batch, "64", "--epochs", "1", "--lr", "0.01"}).front().at("learning_rate").get<double>();
  };
  EXPECT_DOUBLE_EQ(rate(1, "--batch"), 0.02);
  EXPECT_DOUBLE_EQ(rate(3, "--batch"), 0.06);
  EXPECT_DOUBLE_EQ(rate(3, "--global-batch"), 0.02);
}

TEST_F(Training, LearnsInEveryWay) {
  for (const Arguments& way : {Arguments{"--optimizer", "adam"}, Arguments{"--sampling", "random"},
                               Arguments{"--compression", "fp16"}, Arguments{"--compression", "bf16"},
                               Arguments{"--hidden", "32", "--warmup", "0"}, Arguments{"--device", "cpu"}}) {
    SCOPED_TRACE(way[1]);
    Arguments arguments = way;
    arguments.insert(arguments.end(), {"--epochs", "4"});
    EXPECT_GT(train_on(3, arguments).back().at("test_accuracy").get<double>(), 0.85);
  }
}

TEST_F(Training, GoesOnFromACheckpointOnAnotherNumberOfRanks) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const std::string file = scratch_ / optimizer;
    const Arguments arguments = {"--global-batch", "96", "--seed", "7", "--optimizer", optimizer, "--epochs", "4"};
    const auto whole = train_on(1, arguments);
    Arguments begin = arguments, rest = arguments;
    begin.back() = "2";
    begin.insert(begin.end(), {"--checkpoint", file});
    rest.insert(rest.end(), {"--checkpoint", file, "--resume"});
    train_on(3, begin);
    const auto resumed = train_on(4, rest);  // adds to the log of the first part, whose end is removed
    ASSERT_EQ(resumed.size(), 6U);
    expect_same_curve({resumed[0], resumed[1], resumed[3], resumed[4], resumed[5]}, whole);
    EXPECT_THAT(said_, HasSubstr("continuing after epoch 2"));

    const auto nothing_left = train_on(2, rest);
    EXPECT_EQ(nothing_left.size(), 7U);
    EXPECT_EQ(nothing_left[6].at("parameter_hash"), resumed[5].at("parameter_hash"));
    EXPECT_EQ(nothing_left[6].at("test_accuracy"), resumed[5].at("test_accuracy"));
  }
}

// Trains in two halves, or with a stop after each of the first steps. The bits at the end are equal, including the
// residuals.
TEST_F(Training, GoesOnAsIfItHadNotBeenInterrupted) {
  for (const Arguments& way : {Arguments{"--optimizer", "adam"}, Arguments{"--compression", "bf16", "--feedback"}}) {
    SCOPED_TRACE(testing::PrintToString(way));
    const std::string file = scratch_ / "checkpoint";
    const Arguments all = with({"--global-batch", "480", "--hidden", "16"}, way);
    const Arguments saved = with(all, {"--checkpoint", file, "--resume", "auto"});
    const auto whole = train_on(2, with(all, {"--epochs", "2"}));
    std::filesystem::remove(log_);
    train_on(2, with(saved, {"--epochs", "1"}));
    EXPECT_THAT(said_, HasSubstr("there is no checkpoint '" + file + "' yet: training from the beginning"));
    EXPECT_EQ(train_on(2, with(saved, {"--epochs", "2"})).back(), whole.back());
    std::filesystem::remove(file);
    std::filesystem::remove(log_);

    asked_to_stop_ = 1;
    for (int step = 1; step <= 4; step++) {  // an epoch has 3
      stopped_ = 0;
      train_on(2, with(saved, {"--epochs", "2"}));
      EXPECT_EQ(stopped_, 2);
      const std::string at = step <= 3 ? "1 after " + std::to_string(step) : "2 after 1";
      EXPECT_THAT(said_, HasSubstr("stopped by SIGTERM in epoch " + at + " of 3 steps; '" + file + "' has the state"));
    }
    asked_to_stop_ = -1;
    const auto parts = train_on(2, with(saved, {"--epochs", "2"}));
    EXPECT_THAT(said_, HasSubstr("continuing after epoch 1 and 1 step from '" + file + "'"));
    expect_same_curve(parts, whole);
    EXPECT_EQ(parts.back(), whole.back());
    std::filesystem::remove(file);
  }
}

TEST_F(Training, NeedsACheckpointToStopInGoodOrder) {
  asked_to_stop_ = 0;
  train_on(2, {"--epochs", "1"});
  EXPECT_EQ(stopped_, 0);
}

TEST_F(Training, SaysWhichOptionsAreNotThoseOfTheCheckpoint) {
  const std::string file = scratch_ / "checkpoint";
  const Arguments usual = {"--global-batch", "128", "--hidden", "16", "--checkpoint", file};
  train_on(3, with(usual, {"--epochs", "1", "--clip", "1", "--compression", "bf16", "--feedback"}));
  train_on(2, with(usual, {"--epochs", "2", "--resume", "--compression", "fp16", "--feedback", "--lr", "0.00123"}));
  for (const char* change : {"--clip was 1, is now 0\n", "--compression was bf16, is now fp16\n",
                             "--lr was 0.005, is now 0.00123\n", "what --feedback kept on 3 ranks is now on 2;"})
    EXPECT_THAT(said_, HasSubstr(change));
  EXPECT_THAT(said_, testing::Not(HasSubstr("--warmup was")));
  train_on(2, with(usual, {"--epochs", "3", "--resume", "--compression", "fp16", "--lr", "0.00123"}));
  EXPECT_THAT(said_, HasSubstr("--feedback was on, is now off\n"));
  EXPECT_THAT(said_, testing::Not(HasSubstr("kept on")));
}

TEST_F(Training, AutoRefusesADamagedCheckpoint) {
  const auto file = scratch_.put("checkpoint", "something else");
  EXPECT_THAT(refusal(2, {"--epochs", "1", "--checkpoint", file.string(), "--resume", "auto"}),
              HasSubstr("is not a checkpoint"));
  EXPECT_THAT(refusal(2, {"--epochs", "1", "--checkpoint", (scratch_ / "none").string(), "--resume"}),
              HasSubstr("cannot be opened: No such file"));
}

TEST_F(Training, RefusesADamagedOrForeignCheckpoint) {
  const std::string file = scratch_ / "checkpoint";
  const Arguments arguments = {"--global-batch", "96", "--epochs", "1", "--checkpoint", file};
  train_on(2, arguments);
  Arguments other = arguments;
  other.insert(other.end(), {"--resume", "--seed", "9"});
  EXPECT_THAT(refusal(3, other), HasSubstr("was written with --seed 1, this run has --seed 9"));
  const std::string whole = bytes_of(file);
  scratch_.put("checkpoint", whole.substr(0, whole.size() / 2));
  Arguments resume = arguments;
  resume.push_back("--resume");
  EXPECT_THAT(refusal(3, resume), testing::AllOf(HasSubstr(file), HasSubstr("cut off")));
}

TEST_F(Training, SaysThatItDiverged) {
  EXPECT_THAT(refusal(2, {"--lr", "1e30", "--warmup", "0"}), HasSubstr("training diverged in epoch 1"));
}

TEST_F(Training, RefusesFilesThatItCouldNotWrite) {
  EXPECT_THAT(refusal(2, {"--checkpoint", (scratch_ / "no" / "where").string()}), HasSubstr("cannot be written"));
  log_ = scratch_ / "no" / "where";
  EXPECT_THAT(refusal(2, {}), HasSubstr("log '" + log_.string() + "' cannot be written"));
}

TEST_F(Training, RanksWithOtherOptionsAreNamed) {
  try {
    run_world(3, [&](World& world) {
      TrainOptions options;
      options.hidden = {8};
      options.epochs = 1;
      options.seed = world.rank() == 1 ? 2 : 1;
      std::ostringstream out;
      train(world, options, out, 0);
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("training options differ: rank 1 ("), HasSubstr("has --seed 2"),
                                             HasSubstr("have --seed 1; give all ranks the same")));
  }
}

TEST_F(Training, DrawsOnATerminalOnly) {
  train_on(2, {"--epochs", "2"});
  EXPECT_EQ(said_.find('\r'), std::string::npos);
  train_on(2, {"--epochs", "2"}, 60);
  EXPECT_THAT(said_, HasSubstr("\repoch 1/2 ["));
  for (std::size_t at = 0; (at = said_.find("\repoch", at)) != std::string::npos; at++)
    EXPECT_LT(said_.find('\x1b', at) - at, 61U);
}

}  // namespace
}  // namespace anello::trainer
