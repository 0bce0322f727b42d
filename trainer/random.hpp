// The random numbers of the trainer.
#pragma once
#include <anello/sampling.hpp>

namespace anello::trainer {

using sampling::Random;
using sampling::Stream;

}  // namespace anello::trainer
