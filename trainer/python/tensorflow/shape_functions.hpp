// The shapes of outputs, as far as they follow from those of inputs.
#pragma once
#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

// The last input of an op is `now`, which has no output.
void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
// First dimensions are unknown.
void other_rows(TF_ShapeInferenceContext* context, TF_Status* status);
// other_rows, and a table: the rows of each rank in each output.
void allgather_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
void alltoall_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status);
void no_shapes(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace anello::tensorflow
