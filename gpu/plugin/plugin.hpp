// The interface of the plugin's NCCL part for its device part.
#pragma once
#include "gpu/nccl_table.h"

// Returns null, with the reason, if NCCL cannot be used.
const AnelloNcclTable* anello_nccl_table(const char** why_not);
