#include <zlib.h>

#include <vector>

#include "ring/base/wire.hpp"
#include "tests/fuzz/parsers.hpp"
#include "tests/fuzz/promise.hpp"
#include "tests/support/scratch.hpp"
#include "trainer/backend.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/dataset.hpp"

namespace anello::fuzz {
namespace {

// One directory for all calls of a process.
const Scratch& scratch() {
  static const Scratch all;
  return all;
}

std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& dimensions, const std::string& bytes) {
  std::string all;
  const auto big_endian = [&](std::uint32_t value) {
    for (const int shift : {24, 16, 8, 0}) all += char(value >> shift & 0xff);
  };
  big_endian(magic);
  for (const std::uint32_t each : dimensions) big_endian(each);
  return all + bytes;
}

const trainer::Facts kFacts{{"hidden", "4"}, {"seed", "1"}};
constexpr std::size_t kElems = 3;

std::string framed(std::string_view body) {
  Writer file;
  file.raw("ANELLOCK").u32(1).u64(body.size()).raw(body);
  const std::string& all = file.bytes();
  return std::move(file.u32(std::uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size())))).take();
}

}  // namespace

void digits(std::string_view bytes) {
  const auto path = scratch().put("digits", std::string(bytes));
  expect_value_or_error<ErrorCode::file>([&] { trainer::load_digits(path); });
}

void mnist(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string images = idx(0x803, {2, 2, 2}, std::string(8, '\7')),
                    labels = idx(0x801, {2}, std::string(2, '\1'));
  const std::string names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                               "t10k-labels-idx1-ubyte"};
  const std::size_t chosen = std::size_t(bytes[0]) % 4;
  for (std::size_t k = 0; k < 4; k++)
    scratch().put(names[k], k == chosen ? std::string(bytes.substr(1)) : k % 2 == 0 ? images : labels);
  expect_value_or_error<ErrorCode::file>([&] { trainer::load_mnist(scratch().path()); });
}

void checkpoint(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  const auto path = scratch().put("checkpoint", bytes[0] % 2 != 0 ? framed(rest) : std::string(rest));
  const auto backend = trainer::make_cpu_backend();
  std::vector<float> first(kElems, 7), second(1, 7);
  const std::vector<std::span<float>> tensors{first, second};
  expect_value_or_error<ErrorCode::file>([&] {
    try {
      trainer::read_checkpoint(path, kFacts, *backend, tensors);
    } catch (const Error&) {  // a refused file has changed nothing
      require(first == std::vector<float>(kElems, 7) && second == std::vector<float>{7});
      throw;
    }
  });
}

}  // namespace anello::fuzz
