// Captures into graphs, on a fake that is as strict as CUDA.
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <functional>
#include <string>
#include <thread>

#include "tests/gpu/fake_gpu.hpp"

namespace anello {
namespace {

namespace fake = gpu::fake;
using ::testing::HasSubstr;

class CaptureTest : public ::testing::Test {
 protected:
  ~CaptureTest() override { fake::recover(); }
  template <class Call>
  std::string error_of(Call call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::device);
      return error.what();
    }
    return "accepted";
  }
  gpu::Device device_ = fake::device();
  gpu::DeviceGuard guard_{device_};
  gpu::Stream stream_ = gpu::make_stream(device_);
};

TEST_F(CaptureTest, WorkRunsWhenItsGraphIsLaunched) {
  int from = 1, to = 0, sum = 0;
  gpu::Capture capture(device_, stream_.get());
  gpu::copy(device_, &to, &from, sizeof to, stream_.get());
  fake::queue(stream_.get(), [&] { sum += to; });
  const gpu::Graph graph = capture.end();
  fake::finish(stream_.get());
  EXPECT_EQ(sum, 0) << "it ran in the capture";
  for (from = 1; from <= 3; from++) {
    gpu::launch(device_, graph, stream_.get());
    fake::finish(stream_.get());
  }
  EXPECT_EQ(sum, 1 + 2 + 3);
}

TEST_F(CaptureTest, CallsThatACaptureForbidsSpoilIt) {
  const gpu::Event event = gpu::make_event(device_);
  const gpu::Stream other = gpu::make_stream(device_);
  const std::function<void()> forbidden[] = {
      [&] { gpu::make_memory(device_, 8); },
      [&] { gpu::make_pinned(device_, 8); },
      [&] { gpu::wait(device_, event, gpu::kLastWait, "waiting"); },
      [&] {
        gpu::record(device_, event, stream_.get());
        gpu::follow(device_, other.get(), event);
        gpu::record(device_, event, other.get());
        gpu::follow(device_, stream_.get(), event);
      },
  };
  for (const auto& call : forbidden) {
    gpu::Capture capture(device_, stream_.get());
    EXPECT_NE(error_of(call), "accepted");
    EXPECT_THAT(error_of([&] { capture.end(); }), HasSubstr("making a graph of the captured work"));
    EXPECT_FALSE(gpu::is_capturing(device_, stream_.get()));
  }
  const gpu::DeviceMemory behind = gpu::make_memory(device_, 8);
  EXPECT_TRUE(behind);
}

TEST_F(CaptureTest, BelongsToItsThreadAndNotToTheDefaultStream) {
  EXPECT_NE(error_of([&] { gpu::Capture(device_, nullptr); }), "accepted");
  gpu::Capture capture(device_, stream_.get());
  EXPECT_NE(error_of([&] { gpu::Capture(device_, stream_.get()); }), "accepted");
  std::thread([&] {
    void* graph = nullptr;
    EXPECT_NE(device_.table->capture_end(stream_.get(), &graph), 0);
    EXPECT_TRUE(gpu::make_memory(device_, 8)) << "only the thread that captures is forbidden to";
  }).join();
  EXPECT_TRUE(capture.end());
}

TEST_F(CaptureTest, ThatIsLeftLeavesTheStreamAsItWas) {
  bool ran = false;
  {
    const gpu::Capture capture(device_, stream_.get());
    fake::queue(stream_.get(), [&] { ran = true; });
  }
  fake::finish(stream_.get());
  EXPECT_FALSE(ran);
  EXPECT_FALSE(gpu::is_capturing(device_, stream_.get()));
  EXPECT_EQ(fake::graphs_alive(), 0);
}

}  // namespace
}  // namespace anello
