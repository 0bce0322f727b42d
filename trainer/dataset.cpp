#include "trainer/dataset.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cmath>
#include <stdexcept>

#include "trainer/hash.hpp"

namespace anello::trainer {
namespace {

namespace fs = std::filesystem;

// Returns the folders where `digits` may be: relative to this program (which also works after both were moved), where
// it is installed, or in the sources.
std::vector<fs::path> own_data() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> places;
  if (!program.empty()) places.push_back((program.parent_path() / ANELLO_DATA_FROM_BIN).lexically_normal());
  for (const char* place : {ANELLO_DATA_INSTALLED, ANELLO_DATA_SOURCE})
    if (std::find(places.begin(), places.end(), place) == places.end()) places.emplace_back(place);
  return places;
}

}  // namespace

fs::path find_data_file(const std::vector<fs::path>& directories, const std::string& name, const std::string& remedy) {
  std::string looked;
  for (const fs::path& directory : directories) {
    std::error_code missing;
    for (const char* ending : {"", ".gz"})
      if (const fs::path path = directory / (name + ending); fs::exists(path, missing)) return path;
    looked += (looked.empty() ? "'" : ", '") + directory.string() + "'";
  }
  throw Error(ErrorCode::file, "data file " + name + " (or " + name + ".gz) is not in " + looked + "; " + remedy);
}

Dataset load_dataset(std::string_view name, const std::optional<fs::path>& directory) {
  if (name == "digits") {
    const auto places = directory ? std::vector{*directory} : own_data();
    return load_digits(find_data_file(places, "digits.csv", "give its directory with --data DIR"));
  }
  if (name != "mnist") throw std::logic_error("unknown dataset");
  if (!directory)
    throw Error(ErrorCode::configuration,
                "--dataset mnist needs --data DIR, the directory with its four files; "
                "'bash trainer/fetch_mnist.sh DIR' downloads them");
  return load_mnist(*directory);
}

std::uint64_t Dataset::hash() const {
  const std::uint64_t facts[] = {rows, columns, classes};
  std::uint64_t hash = hash64(std::as_bytes(std::span(facts)));
  for (const Samples* samples : {&train, &test}) {
    hash = hash64(std::as_bytes(std::span(samples->pixels)), hash);
    hash = hash64(std::as_bytes(std::span(samples->labels)), hash);
  }
  return hash;
}

// Computes in whole numbers, so that every processor gets the same result.
void Dataset::measure() {
  std::uint64_t sum = 0, squares = 0;
  for (const std::uint64_t pixel : train.pixels) {
    sum += pixel;
    squares += pixel * pixel;
  }
  const auto count = double(train.pixels.size());
  mean = double(sum) / count;
  const double variance = double(squares) / count - mean * mean;
  deviation = variance > 0 ? std::sqrt(variance) : 1;
}

void Dataset::gather(const Samples& from, std::span<const std::uint32_t> indices, std::span<float> images,
                     std::span<std::uint8_t> labels) const {
  const auto shift = float(mean), scale = float(1 / deviation);
  float* to = images.data();
  for (std::size_t i = 0; i < indices.size(); i++) {
    labels[i] = from.labels[indices[i]];
    const std::uint8_t* pixel = from.pixels.data() + indices[i] * image_size();
    for (std::size_t j = 0; j < image_size(); j++) *to++ = scale * (float(pixel[j]) - shift);
  }
}

}  // namespace anello::trainer
