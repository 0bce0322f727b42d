// Calls of NCCL that are under way, and their limit.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <thread>

#include "tests/gpu/on_fake_nccl.hpp"

namespace anello::gpu {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

NcclCommunicator::Limits limited() {
  NcclCommunicator::Limits limits;
  limits.operation = milliseconds(300);
  return limits;
}

// A call that moves nothing on this rank is done at once on its stream. That does not show whether earlier calls on
// other streams are done.
TEST(QueuedCalls, ACallThatMovesNothingDoesNotHideOneThatHangs) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         const Stream one = make_stream(fake::device(world.rank())), other = make_stream(fake::device(world.rank()));
         const auto on_gpu = nccl(world, limited());
         std::vector<int> values(5, 1);
         const std::vector<std::uint64_t> counts{0, 5};
         if (world.rank() == 0) {
           on_gpu->allreduce(values, values, one.get(), Op::sum, {});
           on_gpu->gather(ConstTensor(nullptr, 0, DType::i32), Tensor(nullptr, 0, DType::i32), 1, other.get(),
                          {.counts = counts});
         }
         for (int i = 0; !world.failure() && i < 2000; i++) std::this_thread::sleep_for(milliseconds(10));
         fake::finish(one.get());
         if (world.failure()) throw Error(*world.failure());
       })) {
    ASSERT_TRUE(told.error) << "nothing was said";
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 on localhost has not come"));
  }
}

// In a world of one rank, there is no other rank that could be asked whether it has called.
TEST(QueuedCalls, AWorldOfOneEndsAfterTheLimitToo) {
  const std::vector<Told> told = told_on_all_ranks(1, [](World& world) {
    fake::nccl_faults() = {.kernels_hang = true};
    const Stream stream = make_stream(fake::device(0));
    const auto on_gpu = nccl(world, limited());
    std::vector<int> values(100, 1);
    on_gpu->allreduce(values, values, stream.get(), Op::sum, {});
    while (!world.failure()) std::this_thread::sleep_for(milliseconds(10));
    fake::finish(stream.get());
    throw Error(*world.failure());
  });
  ASSERT_TRUE(told[0].error);
  EXPECT_EQ(told[0].error->code(), ErrorCode::timed_out) << told[0].error->what();
}

}  // namespace
}  // namespace anello::gpu
