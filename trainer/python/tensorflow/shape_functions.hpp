// Computes the shapes of outputs from those of inputs, as far as the inputs' shapes are complete.
#pragma once
#include "trainer/python/tensorflow/tf_c_api.hpp"

namespace anello::tensorflow {

// Each output has the shape of its input. The last input of an op is `now`, which has no output.
void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
// Each output has the shape of its input, except for the first dimension, which is unknown.
void other_rows(TF_ShapeInferenceContext* context, TF_Status* status);
// Shapes as in other_rows(), and then the shape of a table with the number of rows of each rank in each output.
void allgather_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
void alltoall_shapes(TF_ShapeInferenceContext* context, TF_Status* status);
void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status);
void no_shapes(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace anello::tensorflow
