// Reads what anello-train --log has written, and compares two trainings.
#pragma once
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "ring/base/text.hpp"

namespace anello::trainer {

class Log {
 public:
  explicit Log(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json entry = nlohmann::json::parse(line);
      if (entry.at("event") == "epoch") epochs_[entry.at("epoch")] = entry;  // an epoch may be reported twice
      if (entry.at("event") == "world") worlds_++;
      if (entry.at("event") == "end") accuracy_ = entry.at("test_accuracy");
    }
  }
  std::size_t epochs() const { return epochs_.size(); }
  double accuracy() const { return accuracy_; }
  std::size_t worlds() const { return worlds_; }  // of an elastic job

  // Returns the first difference between the disturbed training and the other training: a step that was left out or
  // repeated, a sample that was used in another step, a loss that differs by more than rounding explains, or an
  // accuracy that differs by half a percent.
  friend std::string difference(const Log& disturbed, const Log& other) {
    // Allowed difference of the loss, after many steps whose sums were made in another order.
    constexpr double kRounding = 1e-2;
    constexpr double kHalfPercent = 0.005;
    for (const auto& [epoch, entry] : other.epochs_) {
      const auto found = disturbed.epochs_.find(epoch);
      if (found == disturbed.epochs_.end()) return text("epoch ", epoch, " is missing");
      if (found->second.at("samples_hash") != entry.at("samples_hash"))
        return text("epoch ", epoch, " has used other samples, or in other steps");
      const double loss = found->second.at("train_loss"), expected = entry.at("train_loss");
      if (!(std::abs(loss - expected) <= kRounding * expected))
        return text("epoch ", epoch, " has the loss ", loss, ", expected ", expected);
    }
    if (disturbed.epochs() != other.epochs()) return "there are more epochs";
    if (!(std::abs(disturbed.accuracy_ - other.accuracy_) < kHalfPercent))
      return text("the accuracy is ", disturbed.accuracy_, ", expected ", other.accuracy_);
    return "";
  }

 private:
  std::map<int, nlohmann::json> epochs_;
  std::size_t worlds_ = 0;
  double accuracy_ = -1;
};

}  // namespace anello::trainer
