// The data set `digits`: 1,797 images of 8x8 pixels with values 0 to 16, as text: 64 pixels and the digit on each line.
#include <anello/error.hpp>
#include <charconv>

#include "trainer/data_file.hpp"
#include "trainer/dataset.hpp"

namespace anello::trainer {
namespace {

using std::to_string;

constexpr std::size_t kSamples = 1797, kSide = 8;
constexpr unsigned kMaxPixel = 16, kClasses = 10;
constexpr std::uint64_t kMaxBytes = 4 << 20;

// Takes numbers from the front of the file's text, each together with the separator after it.
class Numbers {
 public:
  Numbers(const DataFile& file, std::string_view left) : file_(file), left_(left) {}
  std::uint8_t number(const std::string& what, unsigned max, char separator) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (error != std::errc() || value > max)
      file_.refuse("line " + to_string(line_) + ": a " + what + " from 0 to " + to_string(max) + " expected");
    left_.remove_prefix(std::size_t(end - left_.data()));
    if (left_.empty() || left_[0] != separator)
      file_.refuse("line " + to_string(line_) + ": " + to_string(kSide * kSide) +
                   " pixels and a label expected, separated by commas");
    left_.remove_prefix(1);
    line_ += separator == '\n';
    return std::uint8_t(value);
  }
  bool empty() const { return left_.empty(); }

 private:
  const DataFile& file_;
  std::string_view left_;
  std::size_t line_ = 1;
};

}  // namespace

Dataset load_digits(const std::filesystem::path& csv) {
  Dataset data{"digits", kSide, kSide, kClasses, {}, {}};
  DataFile file(csv);
  const std::vector<std::uint8_t> bytes = file.read_rest(kMaxBytes);
  Numbers numbers(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::size_t samples = 0;
  for (; !numbers.empty(); samples++) {
    Samples& part = samples % 5 == 4 ? data.test : data.train;
    for (std::size_t i = 0; i < kSide * kSide; i++) part.pixels.push_back(numbers.number("pixel", kMaxPixel, ','));
    part.labels.push_back(numbers.number("label", kClasses - 1, '\n'));
  }
  if (samples != kSamples)
    file.refuse("holds " + to_string(samples) + " samples, " + to_string(kSamples) + " expected");
  data.measure();
  return data;
}

}  // namespace anello::trainer
