#include "ring/gradients/registration.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "ring/base/text.hpp"
#include "ring/group/broadcast_text.hpp"
#include "ring/group/checks.hpp"
#include "ring/run/arithmetic.hpp"

namespace anello {
namespace {

constexpr Options kName{.name = "gradients' registration"};

std::string line_of(const Gradient& gradient) {
  std::string shape;
  for (const std::uint64_t extent : gradient.shape) shape += text(shape.empty() ? "" : " x ", extent);
  if (gradient.shape.empty()) shape = text(gradient.tensor.count);
  return text("'", gradient.name, "' (", shape, " ", name(gradient.tensor.dtype), ")");
}

// bucket_bytes is given: the caller has put the setting in its place.
std::string line_of(const GradientOptions& options) {
  return text("combined as ", int(options.combine), " in buckets of ", *options.bucket_bytes,
              options.tune_buckets ? " bytes, tuned, wire " : " bytes, wire ",
              options.wire ? name(*options.wire) : "as they are", options.error_feedback ? " with feedback" : "",
              options.max_norm ? text(", norm at most ", *options.max_norm) : "", ", accumulation passes ",
              options.accumulation_passes);
}

// A gradient a line; names have none of those.
std::vector<std::string> lines_of(const std::string& all) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\n', at);
    lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// What this rank has otherwise than rank 0; empty if nothing.
std::string first_difference(const std::string& first, const std::string& own, int rank) {
  if (first == own) return {};
  const std::vector<std::string> theirs = lines_of(first), mine = lines_of(own);
  std::size_t at = 0;
  while (at < std::min(theirs.size(), mine.size()) && theirs[at] == mine[at]) at++;
  const auto line = [at](const std::vector<std::string>& lines) {
    return at < lines.size() ? lines[at] : std::string("none");
  };
  const std::string what = at == 0 ? "options of gradients differ:" : text("gradient ", at - 1, " differs:");
  return text(what, " ", line(theirs), " on rank 0, ", line(mine), " on rank ", rank);
}

void check_list(std::span<const Gradient> gradients) {
  std::set<std::string_view> names;
  for (const Gradient& gradient : gradients) {
    const auto wrong = [&](const std::string& why) { refuse("gradients", text(line_of(gradient), ": ", why)); };
    check_tensor("gradients", gradient.name, gradient.tensor);
    if (gradient.name.empty() || gradient.name.find('\n') != std::string_view::npos) wrong("needs a name, in one line");
    if (!names.insert(gradient.name).second) wrong("is listed twice");
    if (!is_float(gradient.tensor.dtype)) wrong("is no floating-point type");
    std::uint64_t elems = 1;
    for (const std::uint64_t extent : gradient.shape) elems *= extent;
    if (!gradient.shape.empty() && elems != gradient.tensor.count)
      wrong(text("the shape does not have the tensor's ", gradient.tensor.count, " elements"));
  }
}

void check_options(std::span<const Gradient> gradients, const GradientOptions& options) {
  const auto all_f32 = [&] {
    return std::ranges::all_of(gradients, [](const Gradient& each) { return each.tensor.dtype == DType::f32; });
  };
  if (options.accumulation_passes < 1)
    refuse("gradients", text("accumulation_passes must be at least 1, not ", options.accumulation_passes));
  if (options.max_norm && !(*options.max_norm > 0))
    refuse("gradients", text("max_norm must be positive, not ", *options.max_norm, "; without it there is no limit"));
  if (*options.bucket_bytes < 0)
    refuse("gradients", text("bucket_bytes must be 0 (a suitable size) or positive, not ", *options.bucket_bytes));
  if (options.error_feedback && (!options.wire || !all_f32()))
    refuse("gradients", "error_feedback is for gradients of f32 that travel as f16 or bf16; set wire");
  if (!options.wire) return;
  for (const Gradient& each : gradients)
    if (!can_travel_as(each.tensor.dtype, *options.wire))
      refuse("gradients", text(line_of(each), " cannot travel as ", name(*options.wire)));
}

}  // namespace

void check_registration(Group& group, std::span<const Gradient> gradients, const GradientOptions& options) {
  check_list(gradients);
  check_options(gradients, options);
  std::string own = line_of(options) + "\n";
  for (const Gradient& gradient : gradients) own += line_of(gradient) + "\n";

  constexpr std::size_t kMaxBytes = 1024;
  std::string difference = first_difference(broadcast_text(0, group, own, kName), own, group.rank());
  difference.resize(kMaxBytes);
  std::string all(kMaxBytes * std::size_t(group.size()), '\0');
  group.allgather(difference, all, {.name = kName.name});
  for (int rank = 0; rank < group.size(); rank++)
    if (const char* const told = all.data() + std::size_t(rank) * kMaxBytes; *told != '\0')
      throw Error(ErrorCode::mismatch, std::string(told, strnlen(told, kMaxBytes)), group.members()[std::size_t(rank)]);
}

}  // namespace anello
