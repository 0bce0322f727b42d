#include "ring/algorithms/plans.hpp"

#include "ring/base/check.hpp"

namespace anello::algorithms {

Plan plan_of(const Signature& signature, const Shape& shape) {
  switch (signature.kind) {
    case Kind::allreduce:
      return plan_allreduce(signature.algorithm, shape, signature.slab_elems);
    case Kind::broadcast:
      return plan_broadcast(shape, signature.algorithm);
    case Kind::allgather:
      return plan_allgather(shape, signature.algorithm);
    case Kind::reduce_scatter:
      return plan_reduce_scatter(shape, signature.slab_elems, signature.algorithm);
    case Kind::barrier:
      return plan_barrier(shape, signature.algorithm);
    case Kind::reduce:
      return plan_reduce(shape, signature.slab_elems, signature.algorithm);
    case Kind::gather:
      return plan_gather(shape);
    case Kind::scatter:
      return plan_scatter(shape);
    case Kind::alltoall:
      return plan_alltoall(shape);
    case Kind::transfer:
      return plan_transfer(shape);
  }
  ANELLO_CHECK(!"a known kind");
}

}  // namespace anello::algorithms
