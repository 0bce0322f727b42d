#include "trainer/optimizer.hpp"

#include <cmath>
#include <stdexcept>

namespace anello::trainer {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(Backend& backend, std::size_t parameters)
      : backend_(backend), size_(parameters), velocity_(backend.allocate(parameters)) {}
  void step(std::span<float> parameters, std::span<const float> gradient, float rate, std::uint64_t) override {
    constexpr float kMomentum = 0.9F;
    backend_.momentum_step(parameters, gradient, {velocity_.get(), size_}, rate, kMomentum);
  }
  std::vector<std::span<float>> state() override { return {{velocity_.get(), size_}}; }

 private:
  Backend& backend_;
  std::size_t size_;
  Backend::Memory velocity_;
};

class Adam : public Optimizer {
 public:
  Adam(Backend& backend, std::size_t parameters)
      : backend_(backend),
        size_(parameters),
        mean_(backend.allocate(parameters)),
        square_(backend.allocate(parameters)) {}
  // `mean` and `square` start at zero. After `count` steps they are too small by a factor of 1 - beta^count, which the
  // rates correct.
  void step(std::span<float> parameters, std::span<const float> gradient, float rate, std::uint64_t count) override {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-6;
    const double mean_part = 1 - std::pow(kBeta1, double(count));
    const double root_part = std::sqrt(1 - std::pow(kBeta2, double(count)));
    const AdamRates rates{float(rate * root_part / mean_part), float(kBeta1), float(kBeta2),
                          float(kEpsilon * root_part)};
    backend_.adam_step(parameters, gradient, {mean_.get(), size_}, {square_.get(), size_}, rates);
  }
  std::vector<std::span<float>> state() override { return {{mean_.get(), size_}, {square_.get(), size_}}; }

 private:
  Backend& backend_;
  std::size_t size_;
  Backend::Memory mean_, square_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, Backend& backend, std::size_t parameters) {
  if (name == "adam") return std::make_unique<Adam>(backend, parameters);
  if (name != "sgd") throw std::logic_error("unknown optimizer");
  return std::make_unique<Sgd>(backend, parameters);
}

}  // namespace anello::trainer
