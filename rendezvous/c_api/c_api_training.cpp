// Implements the C API by calls of the C++ API: gradients and diagnosis.
#include "rendezvous/c_api/given.hpp"
#include "ring/gradients/gradient_math.hpp"

using anello::text;
using namespace anello::c_api;

anello_status anello_gradients_create(anello_group* group, const anello_gradient* list, size_t count,
                                      const anello_gradient_options* options, anello_gradients** gradients) {
  return guarded([&] {
    required(gradients, "out parameter");
    *gradients = new anello_gradients{{required(group, "group").group, gradients_of(list, count), given(options)}};
  });
}
anello_status anello_gradients_begin(anello_gradients* gradients, double factor) {
  return guarded([&] { required(gradients, "gradients").gradients.begin(factor); });
}
anello_status anello_gradients_ready(anello_gradients* gradients, size_t gradient) {
  return guarded([&] { required(gradients, "gradients").gradients.ready(gradient); });
}
anello_status anello_gradients_finish(anello_gradients* gradients, anello_step_stats* stats) {
  return guarded([&] { finish(required(gradients, "gradients").gradients, stats); });
}
void anello_gradients_free(anello_gradients* gradients) {
  delete gradients;
}
anello_status anello_round_with_feedback(anello_tensor gradient, double factor, int wire, float* lost) {
  return guarded([&] {
    if (gradient.dtype != ANELLO_F32) refuse("error feedback is for gradients of f32");
    if (wire != ANELLO_F16 && wire != ANELLO_BF16)
      refuse(text("error feedback is for gradients that travel as ANELLO_F16 or ANELLO_BF16, not as ", wire));
    if (gradient.count == 0) return;
    float* const values = &required(static_cast<float*>(gradient.data), "gradient");
    anello::gradients::round_with_feedback({values, gradient.count}, factor, one_of<anello::DType>(wire),
                                           {&required(lost, "memory for lost"), gradient.count});
  });
}

anello_status anello_get_counters(const anello_world* world, anello_counters* counters) {
  return guarded([&] {
    anello_counters all = known(&required(counters, "out parameter"), anello_counters ANELLO_COUNTERS_INIT);
    const anello::Counters now = required(world, "world").world.counters();
    all.operations = now.operations;
    all.tensor_bytes = now.tensor_bytes;
    all.sent_bytes = now.sent_bytes;
    all.received_bytes = now.received_bytes;
    all.waits = now.waits;
    all.stalls = now.stalls;
    all.busy_ns = std::uint64_t(now.busy.count());
    all.waited_ns = std::uint64_t(now.waited.count());
    all.rejected_connections = now.rejected_connections;
    give_back(all, *counters);
  });
}
anello_status anello_write_flight(const anello_world* world, const char* path) {
  return guarded([&] { required(world, "world").world.write_flight(&required(path, "path")); });
}
anello_status anello_start_timeline(anello_world* world, const char* path) {
  return guarded([&] { required(world, "world").world.start_timeline(&required(path, "path")); });
}
anello_status anello_stop_timeline(anello_world* world) {
  return guarded([&] { required(world, "world").world.stop_timeline(); });
}
anello_status anello_phase_begin(const anello_world* world, const char* name, anello_phase** phase) {
  return guarded([&] {
    anello_phase*& out = required(phase, "out parameter");
    out = new anello_phase{{required(world, "world").world, view(name)}};
  });
}
void anello_phase_end(anello_phase* phase) {
  delete phase;
}
