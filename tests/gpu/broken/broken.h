// Kernels that are wrong on purpose, one fault each: the emulator must say what and where (broken_test.cpp, docs/broken_kernels.md).
#pragma once
#include "patchbay/gpu.h"

#define PATCHBAY_BROKEN(name) PATCHBAY_GPU_LAUNCHER(void, name, (float* out, gpu::Stream stream))

namespace patchbay {

// races.cu
PATCHBAY_BROKEN(missing_barrier)
PATCHBAY_BROKEN(missing_second_barrier)
PATCHBAY_BROKEN(missing_syncwarp)
PATCHBAY_BROKEN(lost_update)
PATCHBAY_BROKEN(plain_read_beside_atomic)
PATCHBAY_BROKEN(blocks_write_one_value)
PATCHBAY_BROKEN(missing_threadfence)
PATCHBAY_BROKEN(device_variable_counts)
PATCHBAY_BROKEN(helper_writes_one_value)
// barriers.cu
PATCHBAY_BROKEN(divergent_barrier)
PATCHBAY_BROKEN(barrier_and_shuffle)
PATCHBAY_BROKEN(named_barrier_too_few)
PATCHBAY_BROKEN(block_waits_for_later_block)
// warps.cu
PATCHBAY_BROKEN(lane_left_early)
PATCHBAY_BROKEN(lane_outside_mask)
PATCHBAY_BROKEN(two_operations_at_once)
PATCHBAY_BROKEN(caller_not_in_mask)
// memory.cu
PATCHBAY_BROKEN(shared_off_by_one)
PATCHBAY_BROKEN(shared_inner_index)
PATCHBAY_BROKEN(dynamic_shared_too_small)
PATCHBAY_BROKEN(global_off_by_one)
PATCHBAY_BROKEN(misaligned_vector)
PATCHBAY_BROKEN(uninitialised_shared)
PATCHBAY_BROKEN(wild_pointer)
PATCHBAY_BROKEN(division_by_zero)
PATCHBAY_BROKEN(stack_too_small)
PATCHBAY_BROKEN(static_shared_too_large)
PATCHBAY_BROKEN(endless_recursion)
PATCHBAY_BROKEN(writes_constant)
PATCHBAY_BROKEN(helper_leaves_memory)
PATCHBAY_BROKEN(copies_input)  // right, but not for every pointer
// async.cu
PATCHBAY_BROKEN(missing_async_wait)
PATCHBAY_BROKEN(wait_for_too_few_groups)
PATCHBAY_BROKEN(missing_barrier_after_wait)
PATCHBAY_BROKEN(misaligned_async_copy)
PATCHBAY_BROKEN(misaligned_ldmatrix)
PATCHBAY_BROKEN(partial_warp_mma)

}  // namespace patchbay
