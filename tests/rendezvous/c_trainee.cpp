// c_trainee STEPS MILLISECONDS WORLD [WEIGHTS]: does the same as the program trainee, but through the C API, and sends
// its state itself.
#include <anello/anello.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "trainee.hpp"

namespace {

using Weights = std::vector<double>;

struct Trainee {
  std::uint64_t steps = 0;
  std::chrono::milliseconds work{0};
  std::uint32_t fast_from = 0;
  Weights weights;
  anello_elastic* job = nullptr;
  anello_world* world = nullptr;
  anello_elastic_change change = ANELLO_ELASTIC_CHANGE_INIT;
  bool world_ends = false;
};

anello_status hash(const Weights& weights, anello_elastic_entry& entry) {
  return anello_elastic_hash(weights.data(), weights.size() * sizeof(double), &entry.high, &entry.low);
}

anello_status synchronize(Trainee& its) {
  const std::string manifest = "weights " + std::to_string(its.weights.size());
  if (const auto status = anello_elastic_begin(its.job, manifest.c_str())) return status;
  if (const auto status = anello_elastic_get_change(its.job, &its.change)) return status;
  const anello_tensor weights{its.weights.data(), its.weights.size(), ANELLO_F64};
  if (const auto status = anello_elastic_deliver(its.job, &weights, 1)) return status;
  const std::size_t bytes = its.weights.size() * sizeof(double);
  anello_elastic_entry entry{"weights", 0, 0};
  if (const auto status = hash(its.weights, entry)) return status;
  if (const auto status = anello_elastic_end(its.job, &entry, 1, bytes)) return status;
  if (const auto status = anello_elastic_get_change(its.job, &its.change)) return status;
  std::printf("world %u: rank %d of %d at %llu, %zu got %llu bytes, paused %llu us\n", its.change.generation,
              its.change.rank, its.change.size, static_cast<unsigned long long>(its.change.revision),
              its.change.receivers_size, static_cast<unsigned long long>(its.change.bytes),
              static_cast<unsigned long long>(its.change.paused_ns / 1000));
  return ANELLO_OK;
}

anello_status compare(Trainee& its) {
  anello_elastic_entry entry{"weights", 0, 0};
  if (const auto status = hash(its.weights, entry)) return status;
  return anello_elastic_compare(its.job, &entry, 1);
}

anello_status train(Trainee& its) {
  using namespace anello::trainee;
  while (anello_elastic_revision(its.job) < its.steps) {
    const auto [rank, size] = std::pair(its.change.rank, its.change.size);
    Weights gradient(its.weights.size());
    add_gradient(gradient, anello_elastic_revision(its.job), kSamples * rank / size, kSamples * (rank + 1) / size);
    if (its.change.generation < its.fast_from) std::this_thread::sleep_for(its.work);
    const anello_tensor sum{gradient.data(), gradient.size(), ANELLO_F64};
    anello_group* const all = anello_world_group(its.world);
    if (const auto status = anello_allreduce(all, {sum.data, sum.count, sum.dtype}, sum, ANELLO_SUM, nullptr, nullptr))
      return status;
    if (const auto status = anello_elastic_commit_begin(its.job)) return status;
    update(its.weights, gradient);
    differ(its.weights, anello_elastic_revision(its.job));
    int ends = 0;
    if (const auto status = anello_elastic_commit_end(its.job, &ends)) return status;
    if ((its.world_ends = ends != 0)) return ANELLO_OK;
    if (!std::has_single_bit(anello_elastic_revision(its.job))) continue;
    if (const auto status = compare(its)) return status;
  }
  return anello_elastic_finish(its.job);
}

int fail() {
  std::fprintf(stderr, "%s\n", anello_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  Trainee its;
  its.steps = std::strtoull(argv[1], nullptr, 10);
  its.work = std::chrono::milliseconds(std::atoi(argv[2]));
  its.fast_from = std::uint32_t(std::atoi(argv[3]));
  its.weights.resize(argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 100);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (anello_elastic_join(nullptr, &its.job) != ANELLO_OK) return fail();
  for (;;) {
    if (anello_elastic_enter(its.job, &its.world) != ANELLO_OK) return fail();
    if (!its.world) {
      std::printf("the others have finished\n");
      break;
    }
    its.world_ends = false;
    anello_status status = synchronize(its);
    if (status == ANELLO_OK) status = train(its);
    if (status == ANELLO_OK && !its.world_ends) {
      std::printf("weights %.0f at %llu\n", anello::trainee::digest(its.weights),
                  static_cast<unsigned long long>(anello_elastic_revision(its.job)));
      break;
    }
    if (status != ANELLO_OK && anello_elastic_survives(its.job, status, anello_last_error_rank()) != 1) return fail();
  }
  anello_elastic_free(its.job);
}
