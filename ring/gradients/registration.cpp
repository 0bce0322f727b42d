#include "ring/gradients/registration.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/group/text_exchange.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello::gradients {
namespace {

constexpr Options kName{.name = "gradients' registration"};

std::string shape_of(const Gradient& gradient) {
  std::string shape;
  for (const std::uint64_t extent : gradient.shape) shape += text(shape.empty() ? "" : " x ", extent);
  return gradient.shape.empty() ? text(gradient.tensor.count) : shape;
}

std::string described(const Gradient& gradient) {
  return text("'", gradient.name, "' (", shape_of(gradient), " ", name(gradient.tensor.dtype), ")");
}

std::string_view name_of(GradientOptions::Combine combine) {
  using enum GradientOptions::Combine;
  return combine == average ? "average" : combine == sum ? "sum" : "weighted";
}

std::vector<group::NamedValue> values_of(std::span<const Gradient> gradients, const GradientOptions& options) {
  std::vector<group::NamedValue> all;
  const auto add_option = [&](std::string_view option, const auto& value) {
    all.push_back({text("option ", option, " of the gradients"), text(value)});
  };
  add_option("combine", name_of(options.combine));
  add_option("bucket_bytes", *options.bucket_bytes);
  add_option("tune_buckets", options.tune_buckets);
  add_option("wire", options.wire ? name(*options.wire) : "none");
  add_option("error_feedback", options.error_feedback);
  add_option("max_norm", options.max_norm ? text(*options.max_norm) : "none");
  add_option("accumulation_passes", options.accumulation_passes);
  add_option("unannounced", options.unannounced == GradientOptions::Unannounced::zero ? "zero" : "error");
  for (std::size_t k = 0; k < gradients.size(); k++) all.push_back({text("gradient ", k), described(gradients[k])});
  return all;
}

void check_list(std::string_view caller, std::span<const Gradient> gradients) {
  std::set<std::string_view> names;
  for (const Gradient& gradient : gradients) {
    const auto wrong = [&](const std::string& why) { group::refuse(caller, text(described(gradient), ": ", why)); };
    group::check_tensor(caller, gradient.name, gradient.tensor);
    if (gradient.name.empty() || gradient.name.find('\n') != std::string_view::npos) wrong("needs a name of one line");
    if (!names.insert(gradient.name).second) wrong("is listed twice");
    if (!is_float(gradient.tensor.dtype)) wrong("must be f16, bf16, f32 or f64");
    std::uint64_t elems = 1;
    for (const std::uint64_t extent : gradient.shape) elems *= extent;
    if (!gradient.shape.empty() && elems != gradient.tensor.count)
      wrong(text("the shape does not have the tensor's ", gradient.tensor.count, " elements"));
  }
}

void check_options(std::string_view caller, std::span<const Gradient> gradients, const GradientOptions& options) {
  const auto all_f32 = [&] {
    return std::ranges::all_of(gradients, [](const Gradient& each) { return each.tensor.dtype == DType::f32; });
  };
  if (options.accumulation_passes < 1)
    group::refuse(caller, text("accumulation_passes must be at least 1, not ", options.accumulation_passes));
  if (options.max_norm && !(*options.max_norm > 0))
    group::refuse(caller, text("max_norm must be positive, not ", *options.max_norm, "; leave it out for no limit"));
  if (options.bucket_bytes && *options.bucket_bytes < 0)
    group::refuse(caller, text("bucket_bytes must be 0 (a suitable size) or positive, not ", *options.bucket_bytes));
  if (options.error_feedback && (!options.wire || !all_f32()))
    group::refuse(caller, "error_feedback is for gradients of f32 that travel as f16 or bf16; set wire");
  if (!options.wire) return;
  for (const Gradient& each : gradients)
    if (!run::can_travel_as(each.tensor.dtype, *options.wire))
      group::refuse(caller, text(described(each), " cannot travel as ", name(*options.wire)));
}

}  // namespace

std::uint64_t register_gradients(std::string_view caller, Group& group, std::span<const Gradient> gradients,
                                 const GradientOptions& options, const BucketRange& range) {
  check_list(caller, gradients);
  check_options(caller, gradients, options);
  GradientOptions resolved = options;
  if (!options.bucket_bytes) resolved.bucket_bytes = GroupAccess::settings(group).bucket_bytes;
  require_same(group, values_of(gradients, resolved), kName);
  return *resolved.bucket_bytes > 0 ? std::uint64_t(*resolved.bucket_bytes) : suitable_bucket_bytes(gradients, range);
}

}  // namespace anello::gradients
