// As attention.cu, for bf16 and heads of just DIM values, by the tensor cores (mma.sync, compute capability 8.0): sums are in f32, but
// weights and the slopes of scores are rounded to bf16 before they are multiplied.
//
// Four warps share a tile of 64 rows, 16 each. In a warp, lane 4 g + t has of each 16 x 8 piece of a product the columns 2 t and
// 2 t + 1 of the rows g and g + 8: "low" and "high" below (PTX ISA, matrix fragments for mma.m16n8k16).

static_assert(TILE == 64 && DIM % 16 == 0 && sizeof(ELEMENT) == 2, "four warps of 16 rows, in bf16");

// Values of a row in shared memory: eight more than it has, so that rows begin in different banks.
#define STRIDE (DIM + 8)
#define STEPS (DIM / 16)
#define PIECES (DIM / 8)
#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

struct Tile {
    int first;
    int count;
    int from;
    int to;
    int shift;
};

typedef bf16 Row[STRIDE];

#ifndef EMULATED
// d += a b, where a is 16 x 16, b 16 x 8.
__device__ inline void multiply(float d[4], const unsigned a[4], const unsigned b[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// Both rounded, the first in the lower half.
__device__ inline unsigned pair(float first, float second) {
    bf16 low, high;
    narrow(first, low);
    narrow(second, high);
    return low.bits | (unsigned)high.bits << 16;
}

// Sixteen values from `column` on of the lane's two rows.
__device__ inline void left(unsigned a[4], const bf16 *low, const bf16 *high, int column, int t) {
    a[0] = *(const unsigned *)(low + column + 2 * t);
    a[1] = *(const unsigned *)(high + column + 2 * t);
    a[2] = *(const unsigned *)(low + column + 2 * t + 8);
    a[3] = *(const unsigned *)(high + column + 2 * t + 8);
}

// The same of two pieces of a product, side by side, rounded.
__device__ inline void left_of(unsigned a[4], const float first[4], const float second[4]) {
    a[0] = pair(first[0], first[1]);
    a[1] = pair(first[2], first[3]);
    a[2] = pair(second[0], second[1]);
    a[3] = pair(second[2], second[3]);
}

// Eight columns, which are `rows` from `first` on, sixteen values each.
__device__ inline void right(unsigned b[2], const Row *rows, int first, int column, int g, int t) {
    const bf16 *values = rows[first + g] + column + 2 * t;
    b[0] = *(const unsigned *)values;
    b[1] = *(const unsigned *)(values + 8);
}

// Eight columns from `column` on, of sixteen `rows` from `first` on.
__device__ inline void right_across(unsigned b[2], const Row *rows, int first, int column, int g, int t) {
    const Row *two = rows + first + 2 * t;
    b[0] = two[0][column + g].bits | (unsigned)two[1][column + g].bits << 16;
    b[1] = two[8][column + g].bits | (unsigned)two[9][column + g].bits << 16;
}

// `count` rows of one head, from `first` on, and zeros up to `rows`.
__device__ inline void copy(Row *to, int rows, const bf16 *from, int first, int count, unsigned head, unsigned heads) {
    typedef Pack<bf16, 8> Eight;
    for (int at = threadIdx.x; at < rows * PIECES; at += 128) {
        int row = at / PIECES, piece = at % PIECES;
        Eight values = {};
        if (row < count) {
            values = *(const Eight *)(from + ((size_t)(first + row) * heads + head) * DIM + 8 * piece);
        }
        *(Eight *)(to[row] + 8 * piece) = values;
    }
}

__device__ inline void store(bf16 *low, bf16 *high, const float sum[PIECES][4], float low_factor, float high_factor, int t) {
#pragma unroll
    for (int n = 0; n < PIECES; n++) {
        if (low) {
            *(unsigned *)(low + 8 * n + 2 * t) = pair(sum[n][0] * low_factor, sum[n][1] * low_factor);
        }
        if (high) {
            *(unsigned *)(high + 8 * n + 2 * t) = pair(sum[n][2] * high_factor, sum[n][3] * high_factor);
        }
    }
}

// Adds sixteen `rows` from `first` on, each as often as two pieces of a product say, to sums of all columns.
__device__ inline void add_rows(float sum[PIECES][4], const float pieces[2][4], const Row *rows, int first, int g, int t) {
    unsigned a[4];
    left_of(a, pieces[0], pieces[1]);
#pragma unroll
    for (int n = 0; n < PIECES; n++) {
        unsigned b[2];
        right_across(b, rows, first, 8 * n, g, t);
        multiply(sum[n], a, b);
    }
}

// Over the four lanes that have a row.
__device__ inline float row_sum(float value) {
    value += __shfl_xor_sync(ALL_LANES, value, 1);
    return value + __shfl_xor_sync(ALL_LANES, value, 2);
}

__device__ inline float row_greatest(float value) {
    value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 1));
    return fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 2));
}

#define KEYS 64

KERNEL(128) attention(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *out, float *normalisers, const Tile *tiles, unsigned queries,
                      unsigned heads, unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) Row keys[KEYS];
    __shared__ __align__(16) Row values[KEYS];
    Tile tile = tiles[blockIdx.x];
    unsigned head = blockIdx.y, kv = head * kv_heads / heads;
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    int row = 16 * warp + g, last = tile.first + tile.count - 1 + tile.shift;
    int low = tile.first + min(row, tile.count - 1), high = tile.first + min(row + 8, tile.count - 1);
    float factor = scale * LOG2E;
    unsigned a[STEPS][4];
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        left(a[step], q + ((size_t)low * heads + head) * DIM, q + ((size_t)high * heads + head) * DIM, 16 * step, t);
    }
    float sum[PIECES][4] = {};
    float greatest[2] = {-INFINITE, -INFINITE}, total[2] = {0.0f, 0.0f};
    for (int key = tile.from; key <= last; key += KEYS) {
        int count = min(KEYS, last + 1 - key);
        __syncthreads();
        copy(keys, KEYS, k, key, count, kv, kv_heads);
        copy(values, KEYS, v, key, count, kv, kv_heads);
        __syncthreads();
        float scores[KEYS / 8][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                unsigned b[2];
                right(b, keys, 8 * n, 16 * step, g, t);
                multiply(scores[n], a[step], b);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int sees = (half ? high : low) + tile.shift;
            float most = greatest[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    bool seen = key + 8 * n + 2 * t + i % 2 <= sees;
                    scores[n][i] = seen ? scores[n][i] * factor : -INFINITE;
                    most = fmaxf(most, scores[n][i]);
                }
            }
            most = row_greatest(most);
            float shrink = exp2f(greatest[half] - most);
            greatest[half] = most;
            total[half] *= shrink;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    scores[n][i] = exp2f(scores[n][i] - most);
                    total[half] += scores[n][i];
                }
            }
#pragma unroll
            for (int n = 0; n < PIECES; n++) {
                sum[n][2 * half] *= shrink;
                sum[n][2 * half + 1] *= shrink;
            }
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
            add_rows(sum, scores + 2 * step, values, 16 * step, g, t);
        }
    }
    total[0] = row_sum(total[0]);
    total[1] = row_sum(total[1]);
    bool has_low = row < tile.count, has_high = row + 8 < tile.count;
    bf16 *to_low = out + ((size_t)low * heads + head) * DIM, *to_high = out + ((size_t)high * heads + head) * DIM;
    store(has_low ? to_low : nullptr, has_high ? to_high : nullptr, sum, 1.0f / total[0], 1.0f / total[1], t);
    if (t == 0 && has_low) {
        normalisers[(size_t)head * queries + low] = greatest[0] * LN2 + logf(total[0]);
    }
    if (t == 0 && has_high) {
        normalisers[(size_t)head * queries + high] = greatest[1] * LN2 + logf(total[1]);
    }
}

#undef KEYS
#define KEYS 32

KERNEL(128) attention_back_queries(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *gradient, const float *normalisers,
                                   const float *means, bf16 *to_q, const Tile *tiles, unsigned queries, unsigned heads,
                                   unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) Row keys[KEYS];
    __shared__ __align__(16) Row values[KEYS];
    Tile tile = tiles[blockIdx.x];
    unsigned head = blockIdx.y, kv = head * kv_heads / heads;
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    int row = 16 * warp + g, last = tile.first + tile.count - 1 + tile.shift;
    int low = tile.first + min(row, tile.count - 1), high = tile.first + min(row + 8, tile.count - 1);
    size_t at_low = ((size_t)low * heads + head) * DIM, at_high = ((size_t)high * heads + head) * DIM;
    size_t of_low = (size_t)head * queries + low, of_high = (size_t)head * queries + high;
    float normaliser[2] = {normalisers[of_low] * LOG2E, normalisers[of_high] * LOG2E}, mean[2] = {means[of_low], means[of_high]};
    float factor = scale * LOG2E;
    unsigned a[STEPS][4], d[STEPS][4];
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        left(a[step], q + at_low, q + at_high, 16 * step, t);
        left(d[step], gradient + at_low, gradient + at_high, 16 * step, t);
    }
    float sum[PIECES][4] = {};
    for (int key = tile.from; key <= last; key += KEYS) {
        int count = min(KEYS, last + 1 - key);
        __syncthreads();
        copy(keys, KEYS, k, key, count, kv, kv_heads);
        copy(values, KEYS, v, key, count, kv, kv_heads);
        __syncthreads();
        float scores[KEYS / 8][4] = {}, products[KEYS / 8][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                unsigned b[2];
                right(b, keys, 8 * n, 16 * step, g, t);
                multiply(scores[n], a[step], b);
                right(b, values, 8 * n, 16 * step, g, t);
                multiply(products[n], d[step], b);
            }
        }
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool seen = key + 8 * n + 2 * t + i % 2 <= (i < 2 ? low : high) + tile.shift;
                float weight = seen ? exp2f(scores[n][i] * factor - normaliser[i / 2]) : 0.0f;
                scores[n][i] = weight * (products[n][i] - mean[i / 2]) * scale;
            }
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
            add_rows(sum, scores + 2 * step, keys, 16 * step, g, t);
        }
    }
    store(row < tile.count ? to_q + at_low : nullptr, row + 8 < tile.count ? to_q + at_high : nullptr, sum, 1.0f, 1.0f, t);
}

#define QUERIES 16

// Rows are keys here, and columns are queries.
KERNEL(128) attention_back_keys(const bf16 *q, const bf16 *k, const bf16 *v, const bf16 *gradient, const float *normalisers,
                                const float *means, bf16 *to_k, bf16 *to_v, const Tile *tiles, unsigned queries, unsigned heads,
                                unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) Row keys[TILE];
    __shared__ __align__(16) Row values[TILE];
    __shared__ __align__(16) Row asked[QUERIES];
    __shared__ __align__(16) Row gradients[QUERIES];
    Tile tile = tiles[blockIdx.x];
    unsigned kv = blockIdx.y, group = heads / kv_heads;
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    int row = 16 * warp + g;
    float factor = scale * LOG2E;
    float sum_k[PIECES][4] = {}, sum_v[PIECES][4] = {};
    copy(keys, TILE, k, tile.first, tile.count, kv, kv_heads);
    copy(values, TILE, v, tile.first, tile.count, kv, kv_heads);
    // The first query that sees any key of the tile.
    int start = max(tile.from, tile.first - tile.shift);
    for (unsigned head = kv * group; head < (kv + 1) * group; head++) {
        for (int query = start; query < tile.to; query += QUERIES) {
            int count = min(QUERIES, tile.to - query);
            __syncthreads();
            copy(asked, QUERIES, q, query, count, head, heads);
            copy(gradients, QUERIES, gradient, query, count, head, heads);
            __syncthreads();
            float scores[2][4] = {}, products[2][4] = {};
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                unsigned a[4], d[4];
                left(a, keys[row], keys[row + 8], 16 * step, t);
                left(d, values[row], values[row + 8], 16 * step, t);
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    unsigned b[2];
                    right(b, asked, 8 * n, 16 * step, g, t);
                    multiply(scores[n], a, b);
                    right(b, gradients, 8 * n, 16 * step, g, t);
                    multiply(products[n], d, b);
                }
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int column = 8 * n + 2 * t + i % 2, key = tile.first + row + (i < 2 ? 0 : 8);
                    float weight = 0.0f, slope = 0.0f;
                    if (column < count && key <= query + column + tile.shift) {
                        size_t at = (size_t)head * queries + query + column;
                        weight = exp2f(scores[n][i] * factor - normalisers[at] * LOG2E);
                        slope = weight * (products[n][i] - means[at]) * scale;
                    }
                    scores[n][i] = slope;
                    products[n][i] = weight;
                }
            }
            add_rows(sum_v, products, gradients, 0, g, t);
            add_rows(sum_k, scores, asked, 0, g, t);
        }
    }
    size_t low = ((size_t)(tile.first + row) * kv_heads + kv) * DIM, high = low + (size_t)8 * kv_heads * DIM;
    bool has_low = row < tile.count, has_high = row + 8 < tile.count;
    store(has_low ? to_k + low : nullptr, has_high ? to_k + high : nullptr, sum_k, 1.0f, 1.0f, t);
    store(has_low ? to_v + low : nullptr, has_high ? to_v + high : nullptr, sum_v, 1.0f, 1.0f, t);
}
