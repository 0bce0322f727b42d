// The interface between the plugin's two parts: its device part (table.cpp) calls its NCCL part (nccl.cpp).
#pragma once
#include "gpu/nccl_table.h"

// Returns null if NCCL cannot be used, and sets the reason.
const AnelloNcclTable* anello_nccl_table(const char** why_not);
