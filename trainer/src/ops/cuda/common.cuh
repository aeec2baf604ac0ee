// What do all kernels share? The types of their elements, and sums over threads.
//
// Each source is compiled behind this one, once for each ELEMENT: `float` or `bf16`. Sums are in f32 and in a fixed order: the same
// input gives the same bits.

// The upper half of an f32.
struct bf16 {
    unsigned short bits;
};

// Values that are read or written at once.
template <class T, int COUNT>
struct alignas(COUNT * sizeof(T)) Pack {
    T values[COUNT];
};

#ifndef KERNEL
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#endif

#define WARP 32
#define ALL_LANES 0xffffffffu
#define INFINITE __uint_as_float(0x7f800000u)

__device__ inline float widen(float value) {
    return value;
}

__device__ inline float widen(bf16 value) {
    return __uint_as_float((unsigned)value.bits << 16);
}

__device__ inline void narrow(float value, float &out) {
    out = value;
}

// Rounds to the nearest, ties to even; NaN stays NaN.
__device__ inline void narrow(float value, bf16 &out) {
#ifndef EMULATED
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#else
    unsigned bits = __float_as_uint(value);
    unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    out.bits = (unsigned short)(value == value ? rounded : (bits >> 16 | 0x40u));
#endif
}

// Over as many neighbouring lanes, a power of two, given to each of them.
__device__ inline float warp_sum(float value, int lanes = WARP) {
    for (int lane = lanes / 2; lane > 0; lane /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, lane);
    }
    return value;
}

__device__ inline float warp_greatest(float value, int lanes = WARP) {
    for (int lane = lanes / 2; lane > 0; lane /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, lane));
    }
    return value;
}

// The sum over all threads of a block of whole warps, given to each of them. `place` is shared.
__device__ inline float block_sum(float value, float place[WARP]) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        place[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    unsigned lane = threadIdx.x % WARP;
    return warp_sum(lane < blockDim.x / WARP ? place[lane] : 0.0f);
}

__device__ inline float block_greatest(float value, float place[WARP]) {
    value = warp_greatest(value);
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        place[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    unsigned lane = threadIdx.x % WARP;
    return warp_greatest(lane < blockDim.x / WARP ? place[lane] : -INFINITE);
}
