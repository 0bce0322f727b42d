#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

CApi tf;

const char* load_c_api(void* (*look_up)(const char* name)) {
  CApi found;
#define ANELLO_TF_LOOK_UP(result, name, arguments)                           \
  found.name = reinterpret_cast<decltype(found.name)>(look_up("TF_" #name)); \
  if (!found.name) return "TF_" #name;
  ANELLO_TF_FUNCTIONS(ANELLO_TF_LOOK_UP)
#undef ANELLO_TF_LOOK_UP
  tf = found;
  return nullptr;
}

}  // namespace anello::tensorflow
