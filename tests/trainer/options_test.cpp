#include "trainer/options.hpp"

#include <gmock/gmock.h>

namespace anello::trainer {
namespace {

using testing::HasSubstr;

TrainOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "anello-train");
  return parse_options(int(arguments.size()), arguments.data());
}

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const Usage& usage) {
    EXPECT_EQ(usage.exit_code, 2);
    EXPECT_EQ(usage.text.find('\n'), std::string::npos) << usage.text;
    EXPECT_THAT(usage.text, testing::StartsWith("anello-train: "));
    return usage.text;
  }
  return "not refused";
}

TEST(Options, HaveDefaultsForTheDataset) {
  const TrainOptions digits = parse({});
  EXPECT_EQ(digits.dataset, "digits");
  EXPECT_GT(digits.epochs, 0U);
  EXPECT_EQ(digits.global_batch_of(4), 128U);
  EXPECT_NE(parse({"--dataset", "mnist"}).epochs, digits.epochs);
}

TEST(Options, TakeUnderscoresForDashes) {
  EXPECT_EQ(parse({"--global_batch", "96"}).global_batch_of(7), 96U);
  EXPECT_EQ(parse({"--global_batch=100"}).global_batch_of(7), 100U);
  EXPECT_EQ(parse({"--global-batch=100", "--checkpoint=a_b"}).checkpoint, "a_b");
  EXPECT_EQ(parse({"--checkpoint", "__x"}).checkpoint, "__x");
}

TEST(Options, BatchIsPerRank) {
  EXPECT_EQ(parse({"--batch", "10"}).global_batch_of(7), 70U);
}

TEST(Options, RefuseWhatWouldNotSurviveAChangeOfRanks) {
  EXPECT_TRUE(parse({"--elastic", "--global-batch", "96"}).elastic);
  EXPECT_THAT(refusal({"--elastic"}), HasSubstr("--elastic needs --global-batch N"));
  EXPECT_THAT(refusal({"--elastic", "--batch", "32"}), HasSubstr("a batch for each rank would change"));
  EXPECT_THAT(refusal({"--elastic", "--global-batch", "96", "--sampling", "random"}), HasSubstr("--sampling shard"));
  EXPECT_THAT(refusal({"--elastic", "--global-batch", "96", "--compression", "fp16", "--feedback"}),
              HasSubstr("--elastic and --feedback exclude each other"));
  EXPECT_THAT(refusal({"--elastic", "--global-batch", "96", "--device", "cuda"}), HasSubstr("--device cpu"));
}

TEST(Options, RefuseNonsenseInOneLine) {
  EXPECT_THAT(refusal({"--batch", "32", "--global-batch", "96"}), HasSubstr("give one of them"));
  EXPECT_THAT(refusal({"--resume"}), HasSubstr("--resume needs --checkpoint FILE"));
  EXPECT_THAT(refusal({"--feedback"}), HasSubstr("--feedback needs gradients that are rounded; give --compression"));
  EXPECT_THAT(refusal({"--epochs", "0"}), HasSubstr("--epochs"));
  EXPECT_THAT(refusal({"--epochs", "4x"}), HasSubstr("4x"));
  EXPECT_THAT(refusal({"--epochs", "-1"}), HasSubstr("--epochs"));
  EXPECT_THAT(refusal({"--global-batch", "99999999999999999999"}), HasSubstr("--global-batch"));
  EXPECT_THAT(refusal({"--batch"}), HasSubstr("--batch"));
  EXPECT_THAT(refusal({"--lr", "0"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"--lr", "nan"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"--lr", "inf"}), HasSubstr("--lr"));
  EXPECT_THAT(refusal({"--warmup", "-1"}), HasSubstr("--warmup"));
  EXPECT_THAT(refusal({"--seed", "-1"}), HasSubstr("--seed"));
  EXPECT_THAT(refusal({"--hidden", "64,0"}), HasSubstr("--hidden"));
  EXPECT_THAT(refusal({"--dataset", "cifar"}), HasSubstr("digits,mnist"));
  EXPECT_THAT(refusal({"--device", "tpu"}), HasSubstr("auto,cpu,cuda"));
  EXPECT_THAT(refusal({"--compression", "int8"}), HasSubstr("none,fp16,bf16"));
  EXPECT_THAT(refusal({"--epoch", "3"}), HasSubstr("--epoch"));
  EXPECT_THAT(refusal({"digits"}), HasSubstr("digits"));
}

TEST(Options, HelpIsNoError) {
  try {
    parse({"--help"});
    FAIL();
  } catch (const Usage& usage) {
    EXPECT_EQ(usage.exit_code, 0);
    EXPECT_THAT(usage.text, HasSubstr("--global-batch"));
  }
}

TEST(Options, ResumeIsNeverAlwaysOrIfThereIsACheckpoint) {
  EXPECT_EQ(parse({"--checkpoint", "f"}).resume, "no");
  EXPECT_EQ(parse({"--checkpoint", "f", "--resume"}).resume, "always");
  EXPECT_EQ(parse({"--resume", "--checkpoint", "f"}).resume, "always");
  EXPECT_EQ(parse({"--resume", "auto", "--checkpoint", "f"}).resume, "auto");
  EXPECT_EQ(parse({"--checkpoint", "f", "--resume=auto"}).resume, "auto");
  EXPECT_THAT(refusal({"--checkpoint", "f", "--resume", "maybe"}), HasSubstr("maybe"));
  EXPECT_THAT(refusal({"--resume", "auto"}), HasSubstr("--resume needs --checkpoint FILE"));
}

TEST(Options, WhatMustLastIsIndependentOfTheWorld) {
  const auto four = parse({"--global-batch", "96"}).facts(4), two = parse({"--global-batch", "96"}).facts(2);
  EXPECT_EQ(four.lasting, two.lasting);
  EXPECT_EQ(four.adjustable, two.adjustable);
  EXPECT_NE(parse({}).facts(4).lasting, parse({}).facts(2).lasting);
  EXPECT_EQ(parse({"--lr", "1"}).facts(2).lasting, parse({}).facts(2).lasting);
  EXPECT_NE(parse({"--lr", "1"}).facts(2).adjustable, parse({}).facts(2).adjustable);
  EXPECT_NE(parse({"--lr", "1"}).shared(2), parse({}).shared(2));
}

}  // namespace
}  // namespace anello::trainer
