// Includes the whole C++ API for host memory. <anello/gpu.hpp> and <anello/gpu_gradients.hpp> are for tensors in GPU
// memory, <anello/testing.hpp> is for worlds of threads.
#pragma once
#include <anello/checkpoint.hpp>
#include <anello/diagnosis.hpp>
#include <anello/elastic.hpp>
#include <anello/elastic_state.hpp>
#include <anello/error.hpp>
#include <anello/gradients.hpp>
#include <anello/group.hpp>
#include <anello/init.hpp>
#include <anello/memory.hpp>
#include <anello/sampling.hpp>
#include <anello/settings.hpp>
#include <anello/tensor.hpp>
#include <anello/training.hpp>
#include <anello/version.hpp>
#include <anello/work.hpp>
#include <anello/world.hpp>
