// Labelled images, and their files. Pixels stay bytes as in the files (floats would take four times the memory in every
// rank); gather() makes the floats of one batch. If the content of a file contradicts the sizes that the file states,
// the functions throw Error{file}, which names the file and what was expected.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::trainer {

struct Samples {
  std::vector<std::uint8_t> pixels;  // one image after the other
  std::vector<std::uint8_t> labels;  // one for each image
  std::size_t size() const { return labels.size(); }
};

struct Dataset {
  std::string name;
  std::size_t rows = 0, columns = 0;  // size of an image
  std::size_t classes = 10;
  Samples train, test;
  double mean = 0, deviation = 1;  // over all training pixels

  std::size_t image_size() const { return rows * columns; }
  std::uint64_t hash() const;  // hash of all members above
  void measure();              // sets mean and deviation
  // Writes the samples with these indices as rows of floats, and also writes their labels. Shifts and scales the floats
  // so that the training set has mean 0 and deviation 1. `images` has indices.size() * image_size() elements.
  void gather(const Samples& from, std::span<const std::uint32_t> indices, std::span<float> images,
              std::span<std::uint8_t> labels) const;
};

// Loads the data set "digits" or "mnist". "mnist" must be in the directory. "digits" is in the directory if one is
// given, otherwise in this program's own data.
Dataset load_dataset(std::string_view name, const std::optional<std::filesystem::path>& directory);

Dataset load_digits(const std::filesystem::path& csv);
Dataset load_mnist(const std::filesystem::path& directory);

// Returns the first directory/name or directory/name.gz that exists. Throws Error{file} with all places and the remedy.
std::filesystem::path find_data_file(const std::vector<std::filesystem::path>& directories, const std::string& name,
                                     const std::string& remedy);

}  // namespace anello::trainer
