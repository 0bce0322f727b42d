// What the two halves of the plugin know of each other.
#pragma once
#include "gpu/nccl_table.h"

// Null, and why, if NCCL cannot be used.
const AnelloNcclTable* anello_nccl_table(const char** why_not);
