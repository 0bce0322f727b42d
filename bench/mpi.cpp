// anello-bench-openmpi, anello-bench-mpich and those of the MPIs of peers.sh: make the measurements of anello-bench
// with an MPI, with the same form of output. Both are built from this file. Each is started by the launcher of its MPI,
// and the launcher also receives the options for transport and algorithm.
#include <mpi.h>

#include <anello/error.hpp>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench/program.hpp"
#include "ring/base/text.hpp"

using namespace anello;
using namespace anello::bench;

namespace {

[[noreturn]] void unsupported(std::string_view what) {
  throw Error(ErrorCode::unsupported, text("this program has no ", what));
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i8:
      return MPI_INT8_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i16:
      return MPI_INT16_T;
    case DType::u16:
      return MPI_UINT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::u32:
      return MPI_UINT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u64:
      return MPI_UINT64_T;
    default:
      unsupported(name(dtype));
  }
}

MPI_Op reduction(Op op) {
  switch (op) {
    case Op::sum:
      return MPI_SUM;
    case Op::product:
      return MPI_PROD;
    case Op::min:
      return MPI_MIN;
    case Op::max:
      return MPI_MAX;
    default:
      unsupported(name(op));
  }
}

int count_of(const Tensor& tensor) {
  if (tensor.count > std::size_t(std::numeric_limits<int>::max()))
    unsupported(text("calls of ", tensor.count, " elements: MPI counts elements with an int; take a smaller size"));
  return int(tensor.count);
}

// An error inside MPI ends the job with MPI's own message, which is MPI's default.
class Mpi : public Library {
 public:
  int rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int size() const override {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }

  nlohmann::ordered_json facts() const override {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    // Open MPI adds who built it.
    const std::string first(
        version, std::min(std::string_view(version, std::size_t(length)).find_first_of("\n,"), std::size_t(length)));
    return {{"library", ANELLO_MPI_NAME}, {"version", first}};
  }

  Call allreduce(ConstTensor input, Tensor output, Op op) override {
    const void* const from = input.data == output.data ? MPI_IN_PLACE : input.data;
    return [=, count = count_of(output), type = type_of(output.dtype), operation = reduction(op)] {
      MPI_Allreduce(from, output.data, count, type, operation, MPI_COMM_WORLD);
    };
  }

  Call step(std::span<const Tensor> tensors, Calls calls) override {
    if (calls == Calls::blocking) return Library::step(tensors, calls);
    const std::vector<Tensor> all(tensors.begin(), tensors.end());
    for (const Tensor& each : all) count_of(each);
    return [=] {
      std::vector<MPI_Request> requests(all.size());
      for (std::size_t k = 0; k < all.size(); k++)
        MPI_Iallreduce(MPI_IN_PLACE, all[k].data, count_of(all[k]), type_of(all[k].dtype), MPI_SUM, MPI_COMM_WORLD,
                       &requests[k]);
      if (calls == Calls::waiting) {
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        return;
      }
      for (int done = 0;;) {
        MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
        if (done) break;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    };
  }
};

int join(const std::function<int(Library&)>& run) {
  MPI_Init(nullptr, nullptr);
  try {
    Mpi library;
    const int code = run(library);
    MPI_Finalize();
    return code;
  } catch (const std::exception& error) {
    std::cerr << text(ANELLO_MPI_PROGRAM, ": ", error.what(), "\n");
    return MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_program({ANELLO_MPI_PROGRAM,
                      "Measures " ANELLO_MPI_NAME ": " ANELLO_MPI_LAUNCHER " -n 2 " ANELLO_MPI_PROGRAM " allreduce",
                      {},
                      join},
                     argc, argv);
}
