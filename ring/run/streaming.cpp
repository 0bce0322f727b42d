#include "ring/run/streaming.hpp"

namespace anello::run {

void Streaming::prepare(const Load& load) {
  wire_shift_ = load.arithmetic->wire_shift;
  execution_.start(*load.plan, *load.arithmetic, *load.input, *load.output, load.results(), load.inputs());
  if (load.trace) load.trace->start(execution_, wire_shift_, load.arithmetic->shift);
}

void Streaming::begin(const Load& load) {
  use(load.links);
  const auto& streams = load.plan->streams;
  alone_ = !load.trace && (streams.empty() || streams[0].kind == plan::Stream::Kind::local);
  if (!alone_) driver_.start(execution_, *load.signature, load.links, load.trace);
  set(execution_.done() ? Status::done : Status::moving);
}

}  // namespace anello::run
