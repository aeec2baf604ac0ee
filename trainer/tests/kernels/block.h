// Runs kernels on the CPU: each thread of a block is a fiber, which runs until it waits for others.
//
// Warps are taken in an order that a seed shuffles, and each runs as far as it can before the next one does: where a barrier is missing,
// one warp is far ahead of another. Shared memory is filled with NaN before each block. A thread that waits for one that never comes
// ends the program.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

inline Index threadIdx, blockIdx, blockDim, gridDim;

#define __device__
#define __global__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared")))
#define KERNEL(threads) static void
// Sources leave out what is said in the assembler's words; it is below.
#define EMULATED

// The linker's names for both ends of shared memory.
extern "C" char __start_shared[], __stop_shared[];

using std::max;
using std::min;

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }

namespace block {

constexpr unsigned LANES = 32;

enum class State { Ready, AtBlock, AtWarp, Done };

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    State state;
    unsigned number;
};

inline std::vector<Fiber> fibers;
inline Fiber *current;
inline ucontext_t scheduler;
inline std::function<void()> work;
// What each lane of each warp has to say; two places, so that nobody overwrites what is still being read.
inline std::vector<unsigned> said[2];
inline std::vector<unsigned> turns;
// The fragments of both factors of a product that each lane holds; two places, too.
struct Fragments {
    unsigned a[4], b[2];
};
inline std::vector<Fragments> held[2];

inline void wait(State state) {
    current->state = state;
    swapcontext(&current->context, &scheduler);
}

inline void enter() {
    work();
    current->state = State::Done;
    swapcontext(&current->context, &scheduler);
}

[[noreturn]] inline void fail(const char *what) {
    std::printf("WRONG %s\n", what);
    std::exit(1);
}

// Lets fibers go on that wait at a barrier, where all of them do that are not done.
inline bool release(size_t first, size_t end, State barrier) {
    size_t waiting = 0, done = 0;
    for (size_t at = first; at < end; at++) {
        waiting += fibers[at].state == barrier;
        // All lanes of a warp must take part.
        done += fibers[at].state == State::Done && barrier == State::AtBlock;
    }
    if (waiting == 0 || waiting + done < end - first) return false;
    for (size_t at = first; at < end; at++)
        if (fibers[at].state == barrier) fibers[at].state = State::Ready;
    return true;
}

// Runs a warp until all its lanes wait for others, or are done.
inline void run_warp(size_t first, std::mt19937 &random) {
    std::vector<unsigned> order(LANES);
    std::iota(order.begin(), order.end(), first);
    std::shuffle(order.begin(), order.end(), random);
    do {
        for (unsigned at : order) {
            if (fibers[at].state != State::Ready) continue;
            current = &fibers[at];
            threadIdx.x = at;
            swapcontext(&scheduler, &current->context);
        }
    } while (release(first, first + LANES, State::AtWarp));
}

inline void run_block(std::mt19937 &random) {
    std::memset(__start_shared, 0xff, __stop_shared - __start_shared);
    for (auto &fiber : fibers) {
        getcontext(&fiber.context);
        constexpr size_t STACK = 1 << 17;
        if (!fiber.stack) fiber.stack.reset(new char[STACK]);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        fiber.state = State::Ready;
        makecontext(&fiber.context, enter, 0);
    }
    std::fill(turns.begin(), turns.end(), 0);
    std::vector<size_t> warps;
    for (size_t first = 0; first < fibers.size(); first += LANES) warps.push_back(first);
    do {
        std::shuffle(warps.begin(), warps.end(), random);
        for (size_t first : warps) run_warp(first, random);
    } while (release(0, fibers.size(), State::AtBlock));
    for (auto &fiber : fibers)
        if (fiber.state != State::Done) fail("threads wait for others that never come");
}

// Runs `kernel` for each block of a grid.
inline void launch(Index grid, unsigned threads, unsigned seed, std::function<void()> kernel) {
    std::mt19937 random(seed);
    if (threads % LANES != 0) fail("a block is not of whole warps");
    fibers.resize(threads);
    for (unsigned at = 0; at < threads; at++) fibers[at].number = at;
    for (auto &words : said) words.assign(threads, 0);
    for (auto &fragments : held) fragments.assign(threads, {});
    turns.assign(threads, 0);
    work = std::move(kernel);
    gridDim = {grid.x, grid.y, 1};
    blockDim = {threads, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) run_block(random);
}

// What lane `from` of the warp said.
inline unsigned exchange(unsigned word, unsigned from) {
    unsigned number = current->number;
    auto &words = said[turns[number]++ % 2];
    words[number] = word;
    wait(State::AtWarp);
    return words[number / LANES * LANES + from];
}

inline float part(unsigned word, int half) { return __uint_as_float(half ? word & 0xffff0000u : word << 16); }

}  // namespace block

inline void __syncthreads() { block::wait(block::State::AtBlock); }

inline float __shfl_xor_sync(unsigned, float value, int mask) {
    unsigned lane = block::current->number % block::LANES;
    return __uint_as_float(block::exchange(__float_as_uint(value), lane ^ (unsigned)mask));
}

inline int __syncthreads_or(int value) {
    // A place for each turn, since some may still read the last.
    static int any[2];
    static unsigned turn = 0, arrived = 0;
    int &mine = any[turn % 2];
    if (arrived++ == 0) mine = 0;
    mine |= value;
    if (arrived == blockDim.x) arrived = 0, turn++;
    __syncthreads();
    return mine;
}

inline unsigned __ballot_sync(unsigned, bool value) {
    unsigned number = block::current->number, first = number / block::LANES * block::LANES, all = 0;
    auto &words = block::said[block::turns[number]++ % 2];
    words[number] = value;
    block::wait(block::State::AtWarp);
    for (unsigned lane = 0; lane < block::LANES; lane++) all |= words[first + lane] << lane;
    return all;
}

inline int __ffs(unsigned word) { return word ? __builtin_ctz(word) + 1 : 0; }

// mma.sync.m16n8k16, bf16 to f32. Of lane 4 g + t: a has the rows g (words 0 and 2) and g + 8 (1 and 3), the columns 2 t, 2 t + 1 (0 and
// 1) and eight more (2 and 3); b has the rows 2 t, 2 t + 1 (word 0) and eight more (1) of column g; d has the columns 2 t, 2 t + 1 of
// the rows g and g + 8.
inline void multiply(float d[4], const unsigned a[4], const unsigned b[2]) {
    unsigned number = block::current->number, first = number / block::LANES * block::LANES, lane = number - first;
    auto &held = block::held[block::turns[number]++ % 2];
    std::copy(a, a + 4, held[number].a);
    std::copy(b, b + 2, held[number].b);
    block::wait(block::State::AtWarp);
    for (int i = 0; i < 4; i++) {
        unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            unsigned of_a = held[first + row * 4 + k % 8 / 2].a[i / 2 + k / 8 * 2];
            unsigned of_b = held[first + column * 4 + k % 8 / 2].b[k / 8];
            d[i] += block::part(of_a, k % 2) * block::part(of_b, k % 2);
        }
    }
}
