// The data set `mnist`: the original IDX files, plain or .gz. Big-endian: a magic number with the type (8: bytes) and
// the number of dimensions, the size of each dimension, then the bytes.
#include <anello/error.hpp>

#include "trainer/data_file.hpp"
#include "trainer/dataset.hpp"

namespace anello::trainer {
namespace {

using std::to_string;

constexpr std::uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801;
constexpr std::uint32_t kMaxPixels =
    4096;  // maximum pixels of one side, so that the product of count, rows and columns fits into 64 bits
constexpr std::uint8_t kDigits = 10;

struct Images {
  std::size_t count, rows, columns;
  std::vector<std::uint8_t> pixels;
};

void expect_magic(DataFile& file, std::uint32_t magic, const std::string& what) {
  if (const auto found = file.read_big_endian("magic number"); found != magic)
    file.refuse("is not an IDX file of " + what + ": magic number " + to_string(magic) + " expected, " +
                to_string(found) + " found");
}

Images read_images(const std::filesystem::path& path) {
  DataFile file(path);
  expect_magic(file, kImagesMagic, "images");
  Images images{file.read_big_endian("image count"), file.read_big_endian("rows"), file.read_big_endian("columns"), {}};
  const std::string shape = to_string(images.rows) + "x" + to_string(images.columns);
  for (const std::size_t side : {images.rows, images.columns})
    if (side < 1 || side > kMaxPixels)
      file.refuse("claims images of " + shape + ", sides from 1 to " + to_string(kMaxPixels) + " pixels expected");
  if (images.count < 1) file.refuse("holds no images, at least one expected");
  images.pixels = file.read(std::uint64_t(images.count) * images.rows * images.columns,
                            "pixels (" + to_string(images.count) + " images of " + shape + ")");
  file.finish();
  return images;
}

std::vector<std::uint8_t> read_labels(const std::filesystem::path& path, std::size_t images) {
  DataFile file(path);
  expect_magic(file, kLabelsMagic, "labels");
  if (const auto count = file.read_big_endian("label count"); count != images)
    file.refuse("claims " + to_string(count) + " labels, but there are " + to_string(images) +
                " images; one label for each is expected");
  auto labels = file.read(images, "labels");
  file.finish();
  for (std::size_t i = 0; i < labels.size(); i++)
    if (labels[i] >= kDigits)
      file.refuse("label " + to_string(i) + " is " + to_string(labels[i]) + ", 0 to " + to_string(kDigits - 1) +
                  " expected");
  return labels;
}

}  // namespace

Dataset load_mnist(const std::filesystem::path& directory) {
  const std::string remedy = "--data names the directory; 'bash trainer/fetch_mnist.sh DIR' downloads the files";
  const auto find = [&](const char* name) { return find_data_file({directory}, name, remedy); };
  const auto train_labels = find("train-labels-idx1-ubyte"), test_labels = find("t10k-labels-idx1-ubyte");
  const auto test_path = find("t10k-images-idx3-ubyte");

  Images train = read_images(find("train-images-idx3-ubyte")), test = read_images(test_path);
  if (test.rows != train.rows || test.columns != train.columns)
    throw Error(ErrorCode::file, "data file '" + test_path.string() + "' holds images of " + to_string(test.rows) +
                                     "x" + to_string(test.columns) + ", " + to_string(train.rows) + "x" +
                                     to_string(train.columns) + " expected as in the training images");
  Dataset data{"mnist", train.rows, train.columns, kDigits, {}, {}};
  data.train = {std::move(train.pixels), read_labels(train_labels, train.count)};
  data.test = {std::move(test.pixels), read_labels(test_labels, test.count)};
  data.measure();
  return data;
}

}  // namespace anello::trainer
