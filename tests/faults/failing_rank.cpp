// A rank that starts, carries out operations of every kind, and leaves. On one rank of the job, a single call of the C
// library fails: `failing_rank RANK start|operations|end CALL NUMBER ERROR`. Prints one line: "right", "wrong: WHAT",
// or, after an error of the library, "told STATUS CULPRIT MESSAGE"; and, for CALL "none", the calls that could have
// failed: "call NAME COUNT". Does not allocate memory itself while calls may fail.
#include <anello/anello.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/faults/failing_calls.hpp"

namespace anello::faults {
namespace {

constexpr std::size_t kSmall = 256, kLarge = 300'000;

// Memory and handles of one rank, all made before a call may fail.
struct Work {
  anello_world* world = nullptr;
  anello_agenda* agenda = nullptr;
  std::vector<float> small = std::vector<float>(kSmall), large = std::vector<float>(kLarge), out{};
  std::vector<std::int32_t> integers = std::vector<std::int32_t>(kLarge);
  const char* wrong = nullptr;

  int rank() const { return anello_rank(group()); }
  int size() const { return anello_size(group()); }
  anello_group* group() const { return anello_world_group(world); }
  float sum_of_ranks() const { return float(size() * (size() - 1)) / 2; }
};

template <class T>
anello_status expect(Work& work, const std::vector<T>& values, T expected, const char* what) {
  for (const T value : values)
    if (value != expected) work.wrong = what;
  return ANELLO_OK;
}

anello_status reduce(Work& work, std::vector<float>& values, const char* what) {
  for (float& value : values) value = float(work.rank());
  const anello_input input{values.data(), values.size(), ANELLO_F32};
  const anello_tensor output{values.data(), values.size(), ANELLO_F32};
  if (const auto status = anello_allreduce(work.group(), input, output, ANELLO_SUM, nullptr, nullptr)) return status;
  return expect(work, values, work.sum_of_ranks(), what);
}
anello_status reduce_small(Work& work) {
  return reduce(work, work.small, "a small allreduce");
}
anello_status reduce_large(Work& work) {
  return reduce(work, work.large, "a large allreduce");
}

anello_status reduce_shared(Work& work) {
  void* memory = nullptr;
  if (const auto status = anello_allocate(kLarge * sizeof(float), &memory)) return status;
  float* const values = static_cast<float*>(memory);
  for (std::size_t k = 0; k < kLarge; k++) values[k] = float(work.rank());
  const auto status = anello_allreduce(work.group(), {memory, kLarge, ANELLO_F32}, {memory, kLarge, ANELLO_F32},
                                       ANELLO_SUM, nullptr, nullptr);
  for (std::size_t k = 0; k < kLarge && status == ANELLO_OK; k++)
    if (values[k] != work.sum_of_ranks()) work.wrong = "an allreduce in shared memory";
  anello_deallocate(memory);
  return status;
}

anello_status reduce_in_background(Work& work) {
  for (float& value : work.large) value = 1;
  anello_work* handle = nullptr;
  const anello_input input{work.large.data(), kLarge, ANELLO_F32};
  const anello_tensor output{work.large.data(), kLarge, ANELLO_F32};
  if (const auto status = anello_allreduce(work.group(), input, output, ANELLO_SUM, nullptr, &handle)) return status;
  const auto status = anello_work_wait(handle);
  anello_work_free(handle);
  return status ? status : expect(work, work.large, float(work.size()), "an asynchronous allreduce");
}

anello_status gather(Work& work) {
  for (float& value : work.small) value = float(work.rank());
  const auto status = anello_allgather(work.group(), {work.small.data(), kSmall, ANELLO_F32},
                                       {work.out.data(), work.out.size(), ANELLO_F32}, nullptr, nullptr);
  for (std::size_t k = 0; k < work.out.size() && status == ANELLO_OK; k++)
    if (work.out[k] != float(k / kSmall)) work.wrong = "an allgather";
  return status;
}

anello_status pass_on(Work& work) {
  const int next = (work.rank() + 1) % work.size(), previous = (work.rank() + work.size() - 1) % work.size();
  for (float& value : work.large) value = float(work.rank());
  anello_work* sending = nullptr;
  if (const auto status = anello_send(work.group(), {work.large.data(), kSmall, ANELLO_F32}, next, nullptr, &sending))
    return status;
  const auto received = anello_recv(work.group(), {work.small.data(), kSmall, ANELLO_F32}, previous, nullptr, nullptr);
  const auto sent = anello_work_wait(sending);
  anello_work_free(sending);
  if (received || sent) return received ? received : sent;
  return expect(work, work.small, float(previous), "a recv");
}

anello_status make_agenda(Work& work) {
  return anello_agenda_create(work.group(), &work.agenda);
}

anello_status reduce_named(Work& work) {
  const std::uint64_t shape = kLarge;
  for (std::int32_t& value : work.integers) value = 10;
  anello_array array{work.integers.data(), &shape, 1, ANELLO_I32};
  anello_named_options options = ANELLO_NAMED_OPTIONS_INIT;
  options.prescale = 2;  // with this factor, an operation on integers needs memory of its own
  anello_named* operation = nullptr;
  if (const auto status =
          anello_named_allreduce(work.agenda, "sum", &array, nullptr, 1, ANELLO_SUM, &options, &operation))
    return status;
  const auto status = anello_named_wait(operation, UINT64_MAX);
  anello_named_free(operation);
  return status ? status : expect(work, work.integers, 20 * work.size(), "a named allreduce");
}

anello_status scatter_named(Work& work) {
  const std::uint64_t shape = kLarge;
  for (std::int32_t& value : work.integers) value = 1;
  anello_array array{work.integers.data(), &shape, 1, ANELLO_I32}, made{};
  anello_named* operation = nullptr;
  if (const auto status =
          anello_named_reduce_scatter(work.agenda, "scatter", &array, 1, ANELLO_SUM, nullptr, &operation))
    return status;
  auto status = anello_named_wait(operation, UINT64_MAX);
  if (status == ANELLO_OK) status = anello_named_output(operation, 0, &made);
  for (std::size_t k = 0; status == ANELLO_OK && k < kLarge / 3; k++)
    if (static_cast<std::int32_t*>(made.data)[k] != work.size()) work.wrong = "a named reduce_scatter";
  anello_named_free(operation);
  return status;
}

anello_status leave_agenda(Work& work) {
  anello_named* barrier = nullptr;
  if (const auto status = anello_named_barrier(work.agenda, "end", nullptr, &barrier)) return status;
  const auto status = anello_named_wait(barrier, UINT64_MAX);
  anello_named_free(barrier);
  return status;
}

anello_status use_part(Work& work) {
  anello_group* part = nullptr;
  if (const auto status = anello_group_split(work.group(), work.rank() % 2, work.rank(), &part)) return status;
  const auto status = anello_barrier(part, nullptr, nullptr);
  anello_group_free(part);
  return status;
}

constexpr anello_status (*kOperations[])(Work&) = {
    reduce_small, reduce_large,  reduce_shared, reduce_in_background, gather,   pass_on,     make_agenda,
    reduce_named, scatter_named, reduce_named,  leave_agenda,         use_part, reduce_small};

anello_status operate(Work& work) {
  for (const auto operation : kOperations)
    if (const auto status = operation(work)) return status;
  return ANELLO_OK;
}

anello_status end(Work& work) {
  if (work.agenda) anello_agenda_free(work.agenda);
  work.agenda = nullptr;
  return anello_finish(work.world);
}

class Run {
 public:
  Run(bool fails, const char* phase, FailingCall failing)
      : fails_(fails), phase_(phase), failing_(std::move(failing)) {}

  anello_status all() {
    if (const auto status = in("start", [&] { return anello_init(nullptr, &work_.world); })) return status;
    work_.out.resize(kSmall * std::size_t(work_.size()));
    if (const auto status = in("operations", [&] { return operate(work_); })) return status;
    return in("end", [&] { return end(work_); });
  }
  const char* wrong() const { return work_.wrong; }
  void free() {
    anello_agenda_free(work_.agenda);
    anello_world_free(work_.world);
  }

 private:
  template <class Phase>
  anello_status in(const char* phase, const Phase& body) {
    const bool here = fails_ && std::strcmp(phase, phase_) == 0;
    if (here) arm(failing_);
    const anello_status status = body();
    if (here) disarm();
    return status;
  }

  bool fails_;
  const char* phase_;
  FailingCall failing_;
  Work work_;
};

}  // namespace
}  // namespace anello::faults

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const char* const mine = std::getenv("ANELLO_RANK");
  const bool fails = mine && std::strcmp(mine, argv[1]) == 0;
  using namespace anello::faults;
  Run run(fails, argv[2], {argv[3], std::strtoull(argv[4], nullptr, 10), std::atoi(argv[5])});
  const anello_status status = run.all();
  if (status != ANELLO_OK)
    std::printf("told %s %d %s\n", anello_status_name(status), anello_last_error_rank(), anello_last_error());
  else if (run.wrong())
    std::printf("wrong: %s\n", run.wrong());
  else
    std::printf("right\n");
  if (fails && std::strcmp(argv[3], "none") == 0)
    for_each_call([](std::string_view name, std::uint64_t calls) {
      if (calls > 0) std::printf("call %.*s %llu\n", int(name.size()), name.data(), (unsigned long long)calls);
    });
  std::fflush(stdout);
  run.free();
}
