// anello-bench-gloo: measures Gloo as anello-bench measures Anello, with the same form of output. Start it like
// anello-bench. The ranks find each other through a folder (--store).
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/program.hpp"
#include "ring/base/text.hpp"

using namespace anello;
using namespace anello::bench;

namespace {

[[noreturn]] void unsupported(std::string_view what) {
  throw Error(ErrorCode::unsupported, text("anello-bench-gloo has no ", what));
}

template <class Use>
auto with_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32:
      return use.template operator()<float>();
    case DType::f64:
      return use.template operator()<double>();
    case DType::i8:
      return use.template operator()<std::int8_t>();
    case DType::u8:
      return use.template operator()<std::uint8_t>();
    case DType::i32:
      return use.template operator()<std::int32_t>();
    case DType::i64:
      return use.template operator()<std::int64_t>();
    case DType::u64:
      return use.template operator()<std::uint64_t>();
    default:
      unsupported(name(dtype));
  }
}

template <class T>
const gloo::ReductionFunction<T>* classic_reduction(Op op) {
  switch (op) {
    case Op::sum:
      return gloo::ReductionFunction<T>::sum;
    case Op::product:
      return gloo::ReductionFunction<T>::product;
    case Op::min:
      return gloo::ReductionFunction<T>::min;
    case Op::max:
      return gloo::ReductionFunction<T>::max;
    default:
      unsupported(name(op));
  }
}

template <class T>
gloo::AllreduceOptions::Func reduction(Op op) {
  using Three = void (*)(void*, const void*, const void*, std::size_t);
  switch (op) {
    case Op::sum:
      return Three(&gloo::sum<T>);
    case Op::product:
      return Three(&gloo::product<T>);
    case Op::min:
      return Three(&gloo::min<T>);
    case Op::max:
      return Three(&gloo::max<T>);
    default:
      unsupported(name(op));
  }
}

class Gloo : public Library {
 public:
  Gloo(int rank, int size, const std::string& folder, const std::string& interface, std::string algorithm)
      : algorithm_(std::move(algorithm)) {
    gloo::transport::tcp::attr address;
    address.iface = interface;
    auto device = gloo::transport::tcp::CreateDevice(address);
    gloo::rendezvous::FileStore store(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  nlohmann::ordered_json facts() const override {
    return {{"library", "gloo"},
            {"version", text(GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH)},
            {"transport", "tcp"},
            {"algorithm", algorithm_}};
  }

  Call allreduce(ConstTensor input, Tensor output, Op op) override;

 private:
  template <class T>
  Call modern(ConstTensor input, Tensor output, Op op, gloo::AllreduceOptions::Algorithm algorithm) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(algorithm);
    if (input.data != output.data) options->setInput(static_cast<T*>(const_cast<void*>(input.data)), input.count);
    options->setOutput(static_cast<T*>(output.data), output.count);
    options->setReduceFunction(reduction<T>(op));
    return [options] { gloo::allreduce(*options); };
  }

  // These algorithms of Gloo work only in place, so an out-of-place call first copies the input.
  template <class T, class Algorithm>
  Call classic(ConstTensor input, Tensor output, Op op) {
    const std::vector<T*> memory{static_cast<T*>(output.data)};
    auto algorithm = std::make_shared<Algorithm>(context_, memory, int(output.count), classic_reduction<T>(op));
    return [=] {
      if (input.data != output.data) std::memcpy(output.data, input.data, input.bytes());
      algorithm->run();
    };
  }

  std::string algorithm_;
  std::shared_ptr<gloo::Context> context_;
};

Library::Call Gloo::allreduce(ConstTensor input, Tensor output, Op op) {
  return with_type(output.dtype, [&]<class T>() -> Call {
    if (algorithm_ == "ring") return modern<T>(input, output, op, gloo::AllreduceOptions::Algorithm::RING);
    if (algorithm_ == "bcube") return modern<T>(input, output, op, gloo::AllreduceOptions::Algorithm::BCUBE);
    if (algorithm_ == "ring_classic") return classic<T, gloo::AllreduceRing<T>>(input, output, op);
    if (algorithm_ == "ring_chunked") return classic<T, gloo::AllreduceRingChunked<T>>(input, output, op);
    return classic<T, gloo::AllreduceHalvingDoubling<T>>(input, output, op);
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder, interface = "lo", algorithm = "ring";
  const auto flags = [&](CLI::App& app) {
    app.add_option("--store", folder, "an empty folder that all ranks can access, where they find each other")
        ->type_name("DIR");
    app.add_option("--interface", interface, "network interface (lo)")->type_name("NAME");
    app.add_option("--algorithm", algorithm,
                   "Gloo's algorithm: ring, bcube, ring_classic, ring_chunked, halving_doubling")
        ->check(CLI::IsMember({"ring", "bcube", "ring_classic", "ring_chunked", "halving_doubling"}));
  };
  const auto join = [&](const std::function<int(Library&)>& run) {
    const Settings settings = Settings::from_environment();
    if (folder.empty())
      throw Error(ErrorCode::configuration, "give --store DIR, an empty folder where the ranks find each other");
    Gloo library(std::max(settings.rank, 0), std::max(settings.size, 1), folder, interface, algorithm);
    return run(library);
  };
  return run_program(
      {"anello-bench-gloo", "Measures Gloo: anello run -n 2 -- anello-bench-gloo --store $(mktemp -d) allreduce", flags,
       join},
      argc, argv);
}
