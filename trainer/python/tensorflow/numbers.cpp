#include "trainer/python/tensorflow/numbers.hpp"

#include "trainer/python/tensorflow/process_sets.hpp"
#include "trainer/python/tensorflow/tf_types.hpp"

namespace anello::tensorflow {

int32_t rank_in(int process_set_id) {
  return process_set(process_set_id)->rank;
}
int32_t size_of(int process_set_id) {
  return process_set(process_set_id)->size();
}
int32_t is_included_in(int process_set_id) {
  return process_set(process_set_id)->agenda != nullptr;
}
int32_t local_rank(int) {
  return world().local_rank;
}
int32_t local_size(int) {
  return world().local_size;
}

void Number::run(TF_OpKernelContext* context) const {
  const auto failure = failure_of([&] { set_output(context, 0, {}, std::vector<int32_t>{number_(process_set_)}); });
  if (failure) tf.OpKernelContext_Failure(context, Status(*failure));
}

}  // namespace anello::tensorflow
