// Everything a program needs.
#pragma once
#include <anello/diagnosis.hpp>
#include <anello/error.hpp>
#include <anello/gradients.hpp>
#include <anello/group.hpp>
#include <anello/init.hpp>
#include <anello/memory.hpp>
#include <anello/settings.hpp>
#include <anello/tensor.hpp>
#include <anello/work.hpp>
#include <anello/world.hpp>
