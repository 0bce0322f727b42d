// Correct data, and data damaged in every way that the trainer must refuse.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <anello/error.hpp>
#include <set>

#include "scratch.hpp"
#include "tests/support/random.hpp"
#include "trainer/dataset.hpp"

namespace anello::trainer {
namespace {

using testing::HasSubstr;

const std::filesystem::path kDigits = ANELLO_TEST_DIGITS;

std::string big_endian(std::uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}
std::string images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns, const std::string& pixels) {
  return big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(columns) + pixels;
}
std::string labels(std::uint32_t count, const std::string& values) {
  return big_endian(0x801) + big_endian(count) + values;
}

// A set of three images to train on and two to test on, 2x3 pixels each, before a test breaks it.
class Mnist : public testing::Test {
 protected:
  Mnist() {
    put("train-images-idx3-ubyte", images(3, 2, 3, std::string(18, '\x40')));
    put("train-labels-idx1-ubyte", labels(3, std::string("\0\1\x9", 3)));
    put("t10k-images-idx3-ubyte", images(2, 2, 3, std::string(12, '\x80')));
    put("t10k-labels-idx1-ubyte", labels(2, std::string("\5\6", 2)));
  }
  void put(const std::string& name, const std::string& bytes) { scratch_.put(name, bytes); }
  void put_packed(const std::string& name, const std::string& bytes) {
    std::filesystem::remove(scratch_ / name);
    put(name + ".gz", bytes);
  }
  std::string refusal() {
    try {
      load_mnist(scratch_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::file);
      EXPECT_THAT(error.what(), HasSubstr(scratch_.path().string()));
      return error.what();
    }
    return "not refused";
  }
  Scratch scratch_;
};

TEST(Digits, AreComplete) {
  const Dataset data = load_dataset("digits", kDigits);
  EXPECT_EQ(data.train.size(), 1438U);
  EXPECT_EQ(data.test.size(), 359U);
  EXPECT_EQ(data.train.pixels.size(), 1438U * 64);
  // The file's first lines are the digits 0, 1, 2, 3, 4: the fifth is the first test sample.
  EXPECT_THAT(std::vector(data.train.labels.begin(), data.train.labels.begin() + 5),
              testing::ElementsAre(0, 1, 2, 3, 5));
  EXPECT_EQ(data.test.labels[0], 4);
  EXPECT_EQ(std::set(data.test.labels.begin(), data.test.labels.end()).size(), 10U);
  EXPECT_EQ(data.train.pixels[2], 5);
}

TEST(Digits, AreGatheredWithMeanZeroAndDeviationOne) {
  const Dataset data = load_dataset("digits", kDigits);
  std::vector<std::uint32_t> all(data.train.size());
  for (std::uint32_t i = 0; i < all.size(); i++) all[i] = i;
  std::vector<float> pixels(all.size() * data.image_size());
  std::vector<std::uint8_t> labels(all.size());
  data.gather(data.train, all, pixels, labels);
  double sum = 0, squares = 0;
  for (const double pixel : pixels) sum += pixel, squares += pixel * pixel;
  EXPECT_NEAR(sum / double(pixels.size()), 0, 1e-4);
  EXPECT_NEAR(squares / double(pixels.size()), 1, 1e-4);
  EXPECT_EQ(labels, data.train.labels);
}

class DamagedDigits : public testing::Test {
 protected:
  std::string refusal(const std::string& name, const std::string& bytes) {
    const auto path = scratch_.put(name, bytes);
    try {
      load_dataset("digits", scratch_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::file);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
    return "not refused";
  }
  static std::string line(int pixel, int label, int pixels = 64) {
    std::string result;
    for (int i = 0; i < pixels; i++) result += std::to_string(pixel) + ",";
    return result + std::to_string(label) + "\n";
  }
  Scratch scratch_;
};

TEST_F(DamagedDigits, CutAnywhere) {
  const std::string whole = bytes_of(kDigits / "digits.csv.gz");
  for (const std::size_t bytes : {std::size_t(20), whole.size() / 2, whole.size() - 1})
    EXPECT_THAT(refusal("digits.csv.gz", whole.substr(0, bytes)), HasSubstr("cut off")) << bytes;
  EXPECT_THAT(refusal("digits.csv.gz", ""), HasSubstr("holds 0 samples, 1797 expected"));
}

TEST_F(DamagedDigits, AnyByteFlipped) {
  const std::string whole = bytes_of(kDigits / "digits.csv.gz");
  for (std::size_t at = 40; at < whole.size(); at += 997) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 0x10);
    EXPECT_NE(refusal("digits.csv.gz", flipped), "not refused") << at;
  }
}

TEST_F(DamagedDigits, WhatDoesNotBelongThere) {
  EXPECT_THAT(refusal("digits.csv", line(17, 3)), HasSubstr("line 1: a pixel from 0 to 16 expected"));
  EXPECT_THAT(refusal("digits.csv", line(16, 3) + line(1, 10)), HasSubstr("line 2: a label from 0 to 9 expected"));
  EXPECT_THAT(refusal("digits.csv", line(1, 3, 63)), HasSubstr("line 1: 64 pixels and a label expected"));
  EXPECT_THAT(refusal("digits.csv", line(1, 3, 65)), HasSubstr("line 1: 64 pixels and a label expected"));
  EXPECT_THAT(refusal("digits.csv", line(1, 3)), HasSubstr("holds 1 samples, 1797 expected"));
  EXPECT_THAT(refusal("digits.csv", line(-1, 3)), HasSubstr("a pixel from 0 to 16 expected"));
  EXPECT_THAT(refusal("digits.csv", "0,"), HasSubstr("a pixel from 0 to 16 expected"));
  EXPECT_THAT(refusal("digits.csv", bytes_of(kDigits / "digits.csv.gz") + "more"), HasSubstr("more bytes"));
  EXPECT_THAT(refusal("digits.csv", std::string(5 << 20, '0')), HasSubstr("too long"));
  EXPECT_THAT(refusal("digits.csv", gzip(std::string(200 << 20, '0'))), HasSubstr("too long"));
}

TEST(MissingData, NamesWhereItWasLookedFor) {
  const Scratch empty;
  try {
    load_dataset("digits", empty.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("digits.csv (or digits.csv.gz) is not in '" + empty.path().string() + "'"));
  }
  try {
    load_dataset("mnist", std::nullopt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--data DIR"));
    EXPECT_THAT(error.what(), HasSubstr("fetch_mnist.sh"));
  }
}

TEST_F(Mnist, IsReadPlainAndPacked) {
  const Dataset plain = load_mnist(scratch_.path());
  EXPECT_EQ(plain.train.size(), 3U);
  EXPECT_EQ(plain.test.size(), 2U);
  EXPECT_EQ(plain.rows * 100 + plain.columns, 203U);
  EXPECT_THAT(plain.train.labels, testing::ElementsAre(0, 1, 9));
  put_packed("train-images-idx3-ubyte", gzip(images(3, 2, 3, std::string(18, '\x40'))));
  put_packed("t10k-labels-idx1-ubyte", gzip(labels(2, std::string("\5\6", 2))));
  EXPECT_EQ(load_mnist(scratch_.path()).hash(), plain.hash());
  put("train-labels-idx1-ubyte", labels(3, std::string("\0\2\x9", 3)));
  EXPECT_NE(load_mnist(scratch_.path()).hash(), plain.hash());
}

TEST_F(Mnist, RefusesWrongMagic) {
  put("train-images-idx3-ubyte", labels(3, std::string(18, 'x')));
  EXPECT_THAT(refusal(),
              HasSubstr("train-images-idx3-ubyte' is not an IDX file of images: magic number 2051 expected"));
}

TEST_F(Mnist, RefusesCutFiles) {
  put("train-images-idx3-ubyte", images(3, 2, 3, std::string(17, 'x')));
  EXPECT_THAT(refusal(), HasSubstr("18 bytes of pixels (3 images of 2x3) expected, 17 left"));
  put("train-images-idx3-ubyte", std::string(2, '\0'));
  EXPECT_THAT(refusal(), HasSubstr("4 bytes of magic number expected"));
  put("train-images-idx3-ubyte", "");
  EXPECT_THAT(refusal(), HasSubstr("4 bytes of magic number expected"));
}

TEST_F(Mnist, RefusesCutGzip) {
  const std::string whole = gzip(images(3, 2, 3, std::string(18, 'x')));
  for (const std::size_t cut : {1, 5, 9, 12}) {
    put_packed("train-images-idx3-ubyte", whole.substr(0, whole.size() - cut));
    EXPECT_THAT(refusal(), HasSubstr("train-images-idx3-ubyte.gz' is a gzip file that has been cut off")) << cut;
  }
  put_packed("train-images-idx3-ubyte", gzip(images(3, 2, 3, std::string(17, 'x'))));
  EXPECT_THAT(refusal(), HasSubstr("18 bytes of pixels (3 images of 2x3) expected, 17 found"));
}

TEST_F(Mnist, RefusesImpossibleClaimsWithoutAllocating) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const std::string kilobyte(1008, 'x');
  for (const std::uint32_t side : {28U, 1U, 4096U}) {
    put("train-images-idx3-ubyte", images(0x80000000, side, side, kilobyte));
    EXPECT_THAT(refusal(), HasSubstr("2147483648 images")) << side;
  }
  put("train-images-idx3-ubyte", images(1, 0xffffffff, 0xffffffff, kilobyte));
  EXPECT_THAT(refusal(), HasSubstr("sides from 1 to 4096"));
  put_packed("train-images-idx3-ubyte", gzip(images(0x80000000, 28, 28, kilobyte)));
  EXPECT_THAT(refusal(), HasSubstr("2147483648 images"));
  // The largest ratio that gzip reaches: 64 KB hold 64 MiB of real zeros. These zeros almost reach the claimed size.
  put_packed("train-images-idx3-ubyte", gzip(images(82000, 28, 28, std::string(60 << 20, '\0'))));
  EXPECT_THAT(refusal(), HasSubstr("82000 images"));
  getrusage(RUSAGE_SELF, &after);
  // The test itself makes 130 MiB of this. The thread sanitizer keeps a shadow of memory.
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, (kSlowdown > 1 ? 1600 : 400) << 10) << "KiB";
}

TEST_F(Mnist, RefusesTrailingBytes) {
  put("train-images-idx3-ubyte", images(3, 2, 3, std::string(19, 'x')));
  EXPECT_THAT(refusal(), HasSubstr("its end expected after 34 bytes"));
  put_packed("train-images-idx3-ubyte", gzip(images(3, 2, 3, std::string(19, 'x'))));
  EXPECT_THAT(refusal(), HasSubstr("its end expected after 34 bytes"));
  put("train-images-idx3-ubyte.gz", gzip(images(3, 2, 3, std::string(18, 'x'))) + "x");
  EXPECT_THAT(refusal(), HasSubstr("holds more bytes after its gzip end"));
}

TEST_F(Mnist, RefusesLabelsThatDoNotFit) {
  put("train-labels-idx1-ubyte", labels(3, std::string("\0\1\xa", 3)));
  EXPECT_THAT(refusal(), HasSubstr("label 2 is 10, 0 to 9 expected"));
  put("train-labels-idx1-ubyte", labels(2, std::string("\0\1", 2)));
  EXPECT_THAT(refusal(), HasSubstr("claims 2 labels, but there are 3 images"));
  put("train-labels-idx1-ubyte", labels(3, std::string("\0\1", 2)));
  EXPECT_THAT(refusal(), HasSubstr("3 bytes of labels expected, 2 left"));
  std::filesystem::remove(scratch_ / "train-labels-idx1-ubyte");
  EXPECT_THAT(refusal(), HasSubstr("train-labels-idx1-ubyte (or train-labels-idx1-ubyte.gz) is not in"));
}

TEST_F(Mnist, RefusesOtherImagesToTestOn) {
  put("t10k-images-idx3-ubyte", images(2, 3, 2, std::string(12, 'x')));
  EXPECT_THAT(refusal(), HasSubstr("holds images of 3x2, 2x3 expected"));
  put("t10k-images-idx3-ubyte", images(0, 2, 3, ""));
  EXPECT_THAT(refusal(), HasSubstr("holds no images"));
}

TEST_F(Mnist, RefusesWhatIsNoFile) {
  std::filesystem::remove(scratch_ / "train-images-idx3-ubyte");
  std::filesystem::create_directory(scratch_ / "train-images-idx3-ubyte");
  EXPECT_THAT(refusal(), HasSubstr("is not a regular file"));
  std::filesystem::remove(scratch_ / "train-images-idx3-ubyte");
  ASSERT_EQ(mkfifo((scratch_ / "train-images-idx3-ubyte").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace anello::trainer
