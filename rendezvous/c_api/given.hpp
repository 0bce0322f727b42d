// Converts the options and lists of the C API to those of the C++ API. All functions throw Error{invalid_argument}.
#pragma once
#include "rendezvous/c_api/handles.hpp"

namespace anello::c_api {

// Makes the three kinds of options of the C++ API. Members that a kind lacks must have their initial values.
class Given {
 public:
  explicit Given(const anello_options* options) : options_(options ? copy_ = known(options, kDefaults) : kDefaults) {}
  Given(const Given&) = delete;

  anello::Options plain() const {
    check_no_counts();
    check_no_reduction();
    return {.name = view(options_.name), .consistency_token = options_.consistency_token};
  }
  anello::PartOptions parts() const {
    check_no_reduction();
    return {.name = view(options_.name), .counts = counts(), .consistency_token = options_.consistency_token};
  }
  anello::ReduceOptions reduction() const {
    std::optional<anello::DType> wire;
    if (options_.wire != 0) wire = one_of<anello::DType>(options_.wire);
    std::optional<std::int64_t> slab_bytes;
    if (options_.slab_bytes != ANELLO_FROM_SETTINGS) slab_bytes = options_.slab_bytes;
    return {.name = view(options_.name),
            .algorithm = view(options_.algorithm),
            .slab_bytes = slab_bytes,
            .wire = wire,
            .prescale = options_.prescale,
            .postscale = options_.postscale,
            .counts = counts(),
            .consistency_token = options_.consistency_token};
  }

 private:
  std::span<const std::uint64_t> counts() const {
    if (options_.counts_size > 0 && !options_.counts) refuse("the list of counts is NULL");
    return {options_.counts, options_.counts_size};
  }
  void check_no_counts() const {
    if (options_.counts_size > 0) refuse("counts are for allgather, gather, scatter and reduce_scatter");
  }
  void check_no_reduction() const {
    if (options_.algorithm || options_.slab_bytes != ANELLO_FROM_SETTINGS || options_.wire != 0 ||
        options_.prescale != 1 || options_.postscale != 1)
      refuse("algorithm, slab_bytes, wire and factors are for reductions");
  }

  static constexpr anello_options kDefaults = ANELLO_OPTIONS_INIT;
  anello_options copy_;  // only set if the caller gives options; most calls have none
  const anello_options& options_;
};

inline std::vector<anello::Gradient> gradients_of(const anello_gradient* list, std::size_t count) {
  if (count > 0 && !list) refuse("the list of gradients is NULL");
  std::vector<anello::Gradient> all;
  for (std::size_t k = 0; k < count; k++)
    all.push_back({view(list[k].name), tensor_of(list[k].tensor),
                   list[k].shape ? std::span(list[k].shape, list[k].dimensions) : std::span<const std::uint64_t>()});
  return all;
}

inline anello::GradientOptions given(const anello_gradient_options* options) {
  const anello_gradient_options all = known(options, anello_gradient_options ANELLO_GRADIENT_OPTIONS_INIT);
  if (all.combine < ANELLO_COMBINE_AVERAGE || all.combine > ANELLO_COMBINE_WEIGHTED)
    refuse(text("combine must be one of anello_combine, not ", int(all.combine)));
  if (all.unannounced != ANELLO_UNANNOUNCED_ERROR && all.unannounced != ANELLO_UNANNOUNCED_ZERO)
    refuse(text("unannounced must be ANELLO_UNANNOUNCED_ERROR or ANELLO_UNANNOUNCED_ZERO, not ", all.unannounced));
  anello::GradientOptions its{.combine = anello::GradientOptions::Combine(all.combine),
                              .tune_buckets = all.tune_buckets != 0,
                              .error_feedback = all.error_feedback != 0,
                              .accumulation_passes = all.accumulation_passes,
                              .unannounced = anello::GradientOptions::Unannounced(all.unannounced)};
  if (all.bucket_bytes != ANELLO_FROM_SETTINGS) its.bucket_bytes = all.bucket_bytes;
  if (all.max_norm != 0) its.max_norm = all.max_norm;
  if (all.wire != 0) its.wire = one_of<anello::DType>(all.wire);
  return its;
}

// Finishes the step, and writes `stats` unless it is null. The struct is checked before the step is finished.
template <class Gradients>
void finish(Gradients& gradients, anello_step_stats* stats) {
  anello_step_stats all = known(stats, anello_step_stats ANELLO_STEP_STATS_INIT);
  const anello::StepStats step = gradients.finish();
  if (!stats) return;
  all.norm = step.norm.value_or(0);
  all.exposed_ns = std::uint64_t(step.exposed.count());
  all.communicated_ns = std::uint64_t(step.communicated.count());
  give_back(all, *stats);
}

}  // namespace anello::c_api
