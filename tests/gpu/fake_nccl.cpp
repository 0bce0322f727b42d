#include "tests/gpu/fake_nccl.hpp"

#include <unistd.h>

#include <anello/error.hpp>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/fake_gpu.hpp"

namespace anello::gpu::fake {
namespace {

constexpr const char* kId = "an id of the fake";
constexpr int kInProgress = 4, kRefused = 5, kBroken = 6, kFirstScaledSum = 1000;

struct FakeComm {
  FakeComm(Group of, NcclFaults with) : group(std::move(of)), faults(std::move(with)), looks(faults.looks) {}
  Group group;
  const NcclFaults faults;
  std::atomic<int> looks;
  std::atomic<bool> aborted{false}, broken{false}, finalizing{false};
  std::mutex mutex;
  std::deque<double> factors;              // of scaled sums
  std::atomic<std::uint64_t> launched{0};  // kernels
  std::atomic<std::uint64_t> ended{0};
  std::set<void*> registered;  // memory; also its handle
};
using Comm = std::shared_ptr<FakeComm>;

// Starts the group's collective for one call; the call's memory must live until it is done.
using Start = std::function<Work(Group& group)>;

std::atomic<int> living{0}, aborts{0}, registrations{0};
thread_local std::optional<Group> next;
thread_local NcclFaults faults_of_thread;
thread_local Comm newest;
thread_local int depth = 0;
thread_local std::vector<std::tuple<Comm, GpuStream, Start>> grouped;

Comm& comm_of(void* comm) {
  return *static_cast<Comm*>(comm);
}

void* made(Group group) {
  newest = std::make_shared<FakeComm>(std::move(group), faults_of_thread);
  auto* const comm = new Comm(newest);
  living++;
  return comm;
}

void wait_for_abort(const Comm& comm) {
  while (!comm->aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A kernel whose peer has died hangs until the communicator is aborted, and then ends without a result.
void carry_out(const Comm& comm, const std::vector<Start>& starts) {
  if (comm->faults.kernels_hang) wait_for_abort(comm);
  if (comm->aborted) return;
  try {
    std::vector<Work> works;
    for (const Start& start : starts) works.push_back(start(comm->group));
    for (Work& work : works) work.wait();
  } catch (const Error&) {
    wait_for_abort(comm);
  }
}

// A communicator's kernels run in the order of the calls, on any streams.
void launch(const Comm& comm, GpuStream stream, std::vector<Start> starts) {
  comm->looks = comm->faults.launches_hang ? INT_MAX : comm->faults.looks;
  const std::uint64_t turn = comm->launched++;
  queue(stream, [comm, turn, starts = std::move(starts)] {
    while (comm->ended < turn && !comm->aborted) std::this_thread::sleep_for(std::chrono::microseconds(100));
    carry_out(comm, starts);
    comm->ended++;
  });
}

int call(void* comm, GpuStream stream, Start start) {
  const Comm& of = comm_of(comm);
  if (of->aborted || of->broken) return kBroken;
  if (of->looks > 0) return kInProgress;
  if (depth > 0) {
    grouped.emplace_back(of, stream, std::move(start));
    return of->faults.groups_are_in_progress ? ANELLO_NCCL_IN_PROGRESS : 0;
  }
  launch(of, stream, {std::move(start)});
  return of->looks > 0 ? ANELLO_NCCL_IN_PROGRESS : 0;
}

int group_end() {
  if (--depth > 0) return 0;
  const auto calls = std::exchange(grouped, {});
  if (calls.empty()) return 0;
  std::vector<Start> starts;
  for (const auto& [comm, stream, start] : calls) starts.push_back(start);
  launch(std::get<0>(calls[0]), std::get<1>(calls[0]), std::move(starts));
  return 0;
}

ConstTensor input(const void* data, std::size_t count, int dtype) {
  return {data, count, DType(dtype)};
}
Tensor output(void* data, std::size_t count, int dtype) {
  return {data, count, DType(dtype)};
}

// The reduction of a call: a plain one, or a scaled sum.
struct By {
  Op op;
  ReduceOptions options;
  bool multiplies;
};

// NCCL rounds a factor, and the 1/n of an average, to the tensor's type.
double rounded(double factor, int dtype) {
  if (DType(dtype) == DType::f16) return double(float(f16(float(factor))));
  if (DType(dtype) == DType::bf16) return double(float(bf16(float(factor))));
  return DType(dtype) == DType::f32 ? double(float(factor)) : factor;
}

By by(void* comm, int op, int dtype) {
  const Comm& of = comm_of(comm);
  const std::lock_guard lock(of->mutex);
  if (op >= kFirstScaledSum)
    return {Op::sum, {.prescale = rounded(of->factors.at(std::size_t(op - kFirstScaledSum)), dtype)}, true};
  if (Op(op) != Op::average || !is_float(DType(dtype))) return {Op(op), {}, false};
  return {Op::sum, {.prescale = rounded(1.0 / of->group.size(), dtype)}, true};
}

// Up to NCCL 2.29.6, the kernel for one rank with a factor does not reach the last elements for many sizes.
std::size_t reached(void* comm, std::size_t count, const By& how) {
  return how.multiplies && comm_of(comm)->group.size() == 1 ? count - count % 32 : count;
}

int unique_id(AnelloNcclId* id) {
  static std::atomic<int> number{0};
  std::snprintf(id->bytes, sizeof id->bytes, "%s %d %d", kId, int(getpid()), number++);
  return 0;
}

// True if no other rank of the communicator has this GPU.
bool is_alone_on_its_gpu(const AnelloNcclId* id) {
  static std::mutex guard;
  static std::set<std::pair<std::string, int>> taken;
  int device = -1;
  table().get_device(&device);
  const std::lock_guard lock(guard);
  return taken.emplace(id->bytes, device).second;
}

int create(void** comm, int size, const AnelloNcclId* id, int rank) {
  if (faults_of_thread.refuses) return kRefused;
  if (!std::string_view(id->bytes).starts_with(kId) || !next || next->size() != size || next->rank() != rank)
    return kRefused;
  if (!is_alone_on_its_gpu(id)) return kRefused;
  *comm = made(*std::exchange(next, std::nullopt));
  return ANELLO_NCCL_IN_PROGRESS;
}

int state(void* comm) {
  FakeComm& of = *comm_of(comm);
  if (of.broken) return kBroken;
  if (of.faults.never_there || (of.finalizing && of.ended < of.launched)) return ANELLO_NCCL_IN_PROGRESS;
  return of.looks > 0 && of.looks-- > 0 ? ANELLO_NCCL_IN_PROGRESS : 0;
}

// NCCL ends a communicator whose kernels are running only by an abort.
int destroy(void* comm) {
  if (comm_of(comm)->ended < comm_of(comm)->launched && !comm_of(comm)->aborted) return kRefused;
  registrations -= int(comm_of(comm)->registered.size());
  delete static_cast<Comm*>(comm);
  living--;
  return 0;
}

int abort(void* comm) {
  FakeComm& of = *comm_of(comm);
  of.aborted = true;
  aborts++;
  std::this_thread::sleep_for(std::chrono::milliseconds(of.faults.abort_takes_ms));
  return destroy(comm);
}

int allgather(const void* in, void* out, std::size_t count, int dtype, void* comm, GpuStream stream) {
  return call(comm, stream, [=](Group& group) {
    return group.allgather_async(input(in, count, dtype), output(out, count * std::size_t(group.size()), dtype));
  });
}
int allreduce(const void* in, void* out, std::size_t count, int dtype, int op, void* comm, GpuStream stream) {
  return call(comm, stream,
              [=, how = by(comm, op, dtype), now = reached(comm, count, by(comm, op, dtype))](Group& group) {
                return group.allreduce_async(input(in, now, dtype), output(out, now, dtype), how.op, how.options);
              });
}
int reduce(const void* in, void* out, std::size_t count, int dtype, int op, int root, void* comm, GpuStream stream) {
  return call(comm, stream,
              [=, how = by(comm, op, dtype), now = reached(comm, count, by(comm, op, dtype))](Group& group) {
                return group.reduce_async(input(in, now, dtype), output(out, now, dtype), root, how.op, how.options);
              });
}
int broadcast(const void* in, void* out, std::size_t count, int dtype, int root, void* comm, GpuStream stream) {
  return call(comm, stream, [=](Group& group) {
    if (group.rank() == root && in != out) std::memcpy(out, in, count * size_bytes(DType(dtype)));
    return group.broadcast_async(output(out, count, dtype), root);
  });
}
int reduce_scatter(const void* in, void* out, std::size_t count, int dtype, int op, void* comm, GpuStream stream) {
  return call(comm, stream,
              [=, how = by(comm, op, dtype), now = reached(comm, count, by(comm, op, dtype))](Group& group) {
                return group.reduce_scatter_async(input(in, now * std::size_t(group.size()), dtype),
                                                  output(out, now, dtype), how.op, how.options);
              });
}
int send(const void* in, std::size_t count, int dtype, int to, void* comm, GpuStream stream) {
  return call(comm, stream, [=](Group& group) { return group.send_async(input(in, count, dtype), to); });
}
int recv(void* out, std::size_t count, int dtype, int from, void* comm, GpuStream stream) {
  return call(comm, stream, [=](Group& group) { return group.recv_async(output(out, count, dtype), from); });
}

int scaled_sum_create(int* op, double factor, int, void* comm) {
  const Comm& of = comm_of(comm);
  const std::lock_guard lock(of->mutex);
  of->factors.push_back(factor);
  *op = kFirstScaledSum + int(of->factors.size()) - 1;
  return 0;
}

int memory_create(void** memory, std::size_t bytes) {
  return table().memory_create(memory, bytes);
}
int memory_destroy(void* memory) {
  return table().memory_destroy(memory);
}
int register_memory(void* comm, void* memory, std::size_t, void** handle) {
  const Comm& of = comm_of(comm);
  int device = -1, current = -1;
  table().device_of(memory, &device);
  table().get_device(&current);
  if (of->aborted || of->broken) return kBroken;
  if (of->looks > 0) return kInProgress;
  if (device != current || !of->registered.insert(memory).second) return kRefused;
  registrations++;
  *handle = memory;
  return 0;
}
int deregister_memory(void* comm, void* handle) {
  if (comm_of(comm)->registered.erase(handle) == 0) return kRefused;
  registrations--;
  return 0;
}

// A table without the functions of 2.19.
AnelloNcclTable older(AnelloNcclTable table) {
  table.memory_create = nullptr;
  table.memory_destroy = nullptr;
  table.register_memory = nullptr;
  table.deregister_memory = nullptr;
  return table;
}

}  // namespace

const AnelloNcclTable& nccl_table() {
  static const AnelloNcclTable table = {
      .describe =
          [](int status) {
            return status == kInProgress ? "an earlier call is in progress"
                   : status == kRefused  ? "the fake refuses"
                                         : "the fake is broken";
          },
      .details = [](void*) { return "a cable is loose"; },
      .version = [](int* version) { return *version = faults_of_thread.version, 0; },
      .has =
          [](int dtype, int op) {
            const bool bits = DType(dtype) == DType::i16 || DType(dtype) == DType::u16;
            return !bits && Op(op) <= Op::product && can_reduce(DType(dtype), Op(op)) ? 1 : 0;
          },
      .unique_id = unique_id,
      .create = create,
      .split =
          [](void* comm, int colour, int key, void** child) {
            *child = made(comm_of(comm)->group.split(colour, key));
            return ANELLO_NCCL_IN_PROGRESS;
          },
      .state = state,
      .finalize =
          [](void* comm) {
            FakeComm& of = *comm_of(comm);
            of.looks = of.faults.looks;
            of.finalizing = true;
            return ANELLO_NCCL_IN_PROGRESS;
          },
      .destroy = destroy,
      .abort = abort,
      .group_start = [] { return depth++, 0; },
      .group_end = group_end,
      .allreduce = allreduce,
      .reduce = reduce,
      .broadcast = broadcast,
      .allgather = allgather,
      .reduce_scatter = reduce_scatter,
      .send = send,
      .recv = recv,
      .scaled_sum_create = scaled_sum_create,
      .scaled_sum_destroy = [](int, void*) { return 0; },
      .memory_create = memory_create,
      .memory_destroy = memory_destroy,
      .register_memory = register_memory,
      .deregister_memory = deregister_memory,
  };
  static const AnelloNcclTable old = older(table);
  return faults_of_thread.version < 21900 ? old : table;
}

const AnelloNcclTable* find_nccl(const char** why_not) {
  *why_not = faults_of_thread.missing.c_str();
  return faults_of_thread.missing.empty() ? &nccl_table() : nullptr;
}

void nccl_moves_with(Group group) {
  next = std::move(group);
}
NcclFaults& nccl_faults() {
  return faults_of_thread;
}
void nccl_breaks() {
  newest->broken = true;
}
int nccl_alive() {
  return living;
}
int nccl_aborted() {
  return aborts;
}
int nccl_registered() {
  return registrations;
}

}  // namespace anello::gpu::fake
