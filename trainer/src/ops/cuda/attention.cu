// Causal attention within segments, with grouped heads: softmax(q k^T * scale) v in tiles, so that nothing of the size
// [queries, keys] is in memory (Dao et al. 2022). Sums are in f32.
//
// Compiled for each DIM, a multiple of 32: heads of `dim` <= DIM values are widened with zeros. Eight threads share a row of a tile;
// each has every eighth column of its scores, and the fourths of its values that stand at 4 (8 n + thread).

#define LANES 8
#define ROW (DIM + 4)
#define COLUMNS (TILE / LANES)
#define FOURTHS (DIM / 4 / LANES)

static_assert(TILE % LANES == 0 && TILE * LANES % WARP == 0 && DIM % (4 * LANES) == 0, "whole warps, whole fourths");

// Up to TILE rows, from `first` on, which belong to rows `from` to `to` of the other side. Query i sees the keys up to i + shift.
struct Tile {
    int first;
    int count;
    int from;
    int to;
    int shift;
};


// Rows `first` to `first + count` of one head of `from`, [rows, heads * dim]; all others are zeros.
__device__ inline void load(float place[TILE][ROW], const ELEMENT *from, int first, int count, unsigned head, unsigned heads, unsigned dim) {
    for (unsigned at = threadIdx.x; at < TILE * DIM; at += TILE * LANES) {
        unsigned row = at / DIM, column = at % DIM;
        bool there = (int)row < count && column < dim;
        place[row][column] = there ? widen(from[((size_t)(first + (int)row) * heads + head) * dim + column]) : 0.0f;
    }
}

__device__ inline float dot(const float *a, const float *b) {
    float sum = 0.0f;
    for (int at = 0; at < DIM; at += 4) {
        float4 x = *(const float4 *)(a + at), y = *(const float4 *)(b + at);
        sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
    }
    return sum;
}

// Adds `factor` times the thread's fourths of a row.
__device__ inline void add(float4 sum[FOURTHS], float factor, const float *row, unsigned lane) {
    for (int n = 0; n < FOURTHS; n++) {
        float4 value = *(const float4 *)(row + 4 * (LANES * n + lane));
        sum[n].x += factor * value.x;
        sum[n].y += factor * value.y;
        sum[n].z += factor * value.z;
        sum[n].w += factor * value.w;
    }
}

// Writes the thread's fourths of a row, times `factor`.
__device__ inline void store(ELEMENT *row, const float4 sum[FOURTHS], float factor, unsigned lane, unsigned dim) {
    for (int n = 0; n < FOURTHS; n++) {
        const float values[4] = {sum[n].x, sum[n].y, sum[n].z, sum[n].w};
        for (int i = 0; i < 4; i++) {
            unsigned column = 4 * (LANES * n + lane) + i;
            if (column < dim) {
                narrow(values[i] * factor, row[column]);
            }
        }
    }
}

// Block (n, h) takes tile n of queries and head h. `normalisers` is [heads, queries].
KERNEL(TILE * LANES) attention(const ELEMENT *q, const ELEMENT *k, const ELEMENT *v, ELEMENT *out, float *normalisers, const Tile *tiles,
                               unsigned queries, unsigned heads, unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) float place_q[TILE][ROW];
    __shared__ __align__(16) float place_kv[TILE][ROW];
    __shared__ float weights[TILE][TILE + 1];
    Tile tile = tiles[blockIdx.x];
    unsigned head = blockIdx.y, kv = head * kv_heads / heads;
    unsigned row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int query = tile.first + min((int)row, tile.count - 1);
    int last = tile.first + tile.count - 1 + tile.shift;
    float4 sum[FOURTHS] = {};
    float greatest = -INFINITE, total = 0.0f;
    load(place_q, q, tile.first, tile.count, head, heads, dim);
    for (int key = tile.from; key <= last; key += TILE) {
        int count = min(TILE, last + 1 - key);
        __syncthreads();
        load(place_kv, k, key, count, kv, kv_heads, dim);
        __syncthreads();
        float scores[COLUMNS];
        float most = greatest;
        for (int n = 0; n < COLUMNS; n++) {
            int column = LANES * n + lane;
            bool seen = key + column <= query + tile.shift;
            scores[n] = seen ? dot(place_q[row], place_kv[column]) * scale : -INFINITE;
            most = fmaxf(most, scores[n]);
        }
        most = warp_greatest(most, LANES);
        float shrink = expf(greatest - most), share = 0.0f;
        for (int n = 0; n < COLUMNS; n++) {
            float weight = expf(scores[n] - most);
            weights[row][LANES * n + lane] = weight;
            share += weight;
        }
        greatest = most;
        total = total * shrink + warp_sum(share, LANES);
        for (int n = 0; n < FOURTHS; n++) {
            sum[n].x *= shrink;
            sum[n].y *= shrink;
            sum[n].z *= shrink;
            sum[n].w *= shrink;
        }
        __syncthreads();
        load(place_kv, v, key, count, kv, kv_heads, dim);
        __syncthreads();
        for (int at = 0; at < count; at++) {
            add(sum, weights[row][at], place_kv[at], lane);
        }
    }
    if ((int)row < tile.count) {
        store(out + ((size_t)query * heads + head) * dim, sum, 1.0f / total, lane, dim);
        if (lane == 0) {
            normalisers[(size_t)head * queries + query] = greatest + logf(total);
        }
    }
}

// Gradients of queries. Block (n, h) takes tile n of queries and head h.
KERNEL(TILE * LANES) attention_back_queries(const ELEMENT *q, const ELEMENT *k, const ELEMENT *v, const ELEMENT *gradient,
                                            const float *normalisers, const float *means, ELEMENT *to_q, const Tile *tiles,
                                            unsigned queries, unsigned heads, unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) float place_q[TILE][ROW];
    __shared__ __align__(16) float place_g[TILE][ROW];
    __shared__ __align__(16) float place_k[TILE][ROW];
    __shared__ __align__(16) float place_v[TILE][ROW];
    __shared__ float slopes[TILE][TILE + 1];
    Tile tile = tiles[blockIdx.x];
    unsigned head = blockIdx.y, kv = head * kv_heads / heads;
    unsigned row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int query = tile.first + min((int)row, tile.count - 1);
    int last = tile.first + tile.count - 1 + tile.shift;
    float normaliser = normalisers[(size_t)head * queries + query], mean = means[(size_t)head * queries + query];
    float4 sum[FOURTHS] = {};
    load(place_q, q, tile.first, tile.count, head, heads, dim);
    load(place_g, gradient, tile.first, tile.count, head, heads, dim);
    for (int key = tile.from; key <= last; key += TILE) {
        int count = min(TILE, last + 1 - key);
        __syncthreads();
        load(place_k, k, key, count, kv, kv_heads, dim);
        load(place_v, v, key, count, kv, kv_heads, dim);
        __syncthreads();
        for (int n = 0; n < COLUMNS; n++) {
            int column = LANES * n + lane;
            float slope = 0.0f;
            if (key + column <= query + tile.shift) {
                float weight = expf(dot(place_q[row], place_k[column]) * scale - normaliser);
                slope = weight * (dot(place_g[row], place_v[column]) - mean) * scale;
            }
            slopes[row][column] = slope;
        }
        __syncthreads();
        for (int at = 0; at < count; at++) {
            add(sum, slopes[row][at], place_k[at], lane);
        }
    }
    if ((int)row < tile.count) {
        store(to_q + ((size_t)query * heads + head) * dim, sum, 1.0f, lane, dim);
    }
}

// Gradients of keys and values. Block (n, h) takes tile n of keys and head h of keys; it goes through the heads of queries that
// read that one, in order.
KERNEL(TILE * LANES) attention_back_keys(const ELEMENT *q, const ELEMENT *k, const ELEMENT *v, const ELEMENT *gradient,
                                         const float *normalisers, const float *means, ELEMENT *to_k, ELEMENT *to_v, const Tile *tiles,
                                         unsigned queries, unsigned heads, unsigned kv_heads, unsigned dim, float scale) {
    __shared__ __align__(16) float place_q[TILE][ROW];
    __shared__ __align__(16) float place_g[TILE][ROW];
    __shared__ __align__(16) float place_k[TILE][ROW];
    __shared__ __align__(16) float place_v[TILE][ROW];
    __shared__ float weights[TILE][TILE + 1];
    __shared__ float slopes[TILE][TILE + 1];
    Tile tile = tiles[blockIdx.x];
    unsigned kv = blockIdx.y, group = heads / kv_heads;
    unsigned row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int key = tile.first + (int)row;
    float4 sum_k[FOURTHS] = {}, sum_v[FOURTHS] = {};
    load(place_k, k, tile.first, tile.count, kv, kv_heads, dim);
    load(place_v, v, tile.first, tile.count, kv, kv_heads, dim);
    // The first query that sees any key of the tile.
    int start = max(tile.from, tile.first - tile.shift);
    for (unsigned head = kv * group; head < (kv + 1) * group; head++) {
        for (int query = start; query < tile.to; query += TILE) {
            int count = min(TILE, tile.to - query);
            __syncthreads();
            load(place_q, q, query, count, head, heads, dim);
            load(place_g, gradient, query, count, head, heads, dim);
            __syncthreads();
            for (int n = 0; n < COLUMNS; n++) {
                int column = LANES * n + lane;
                float weight = 0.0f, slope = 0.0f;
                if (column < count && key <= query + column + tile.shift) {
                    size_t at = (size_t)head * queries + query + column;
                    weight = expf(dot(place_q[column], place_k[row]) * scale - normalisers[at]);
                    slope = weight * (dot(place_g[column], place_v[row]) - means[at]) * scale;
                }
                weights[row][column] = weight;
                slopes[row][column] = slope;
            }
            __syncthreads();
            for (int at = 0; at < count; at++) {
                add(sum_v, weights[row][at], place_g[at], lane);
                add(sum_k, slopes[row][at], place_q[at], lane);
            }
        }
    }
    if ((int)row < tile.count) {
        size_t to = ((size_t)key * kv_heads + kv) * dim;
        store(to_k + to, sum_k, 1.0f, lane, dim);
        store(to_v + to, sum_v, 1.0f, lane, dim);
    }
}
