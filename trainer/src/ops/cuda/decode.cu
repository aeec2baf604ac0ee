// Attention of few queries to many keys, as when text is written token by token: as `attention`, with a block for each query.

// Values of a head that a thread has, one beside the other.
#define VALUES (DIM / WARP)
#define WARPS 8
// Keys that a warp reads at a time.
#define KEYS 4

struct Tile {
    int first;
    int count;
    int from;
    int to;
    int shift;
};

__device__ inline void load(float values[VALUES], const ELEMENT *row, unsigned lane, unsigned dim, bool whole) {
    if (whole) {
        Pack<ELEMENT, VALUES> pack = *(const Pack<ELEMENT, VALUES> *)(row + lane * VALUES);
        for (int n = 0; n < VALUES; n++) {
            values[n] = widen(pack.values[n]);
        }
        return;
    }
    for (int n = 0; n < VALUES; n++) {
        unsigned at = lane * VALUES + n;
        values[n] = at < dim ? widen(row[at]) : 0.0f;
    }
}

// Block (n, h) takes the query of tile n, which has one, and head h. Its warps take keys in turn; what each found is put together.
KERNEL(256) decode(const ELEMENT *q, const ELEMENT *k, const ELEMENT *v, ELEMENT *out, float *normalisers, const Tile *tiles,
                   unsigned queries, unsigned heads, unsigned kv_heads, unsigned dim, float scale) {
    __shared__ float sums[WARPS][DIM];
    __shared__ float most[WARPS], totals[WARPS];
    Tile tile = tiles[blockIdx.x];
    unsigned head = blockIdx.y, kv = head * kv_heads / heads;
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    // Whole heads start where packs of their values do.
    bool whole = dim == DIM;
    int end = tile.first + tile.shift + 1;
    float query[VALUES], sum[VALUES] = {};
    float greatest = -INFINITE, total = 0.0f;
    load(query, q + ((size_t)tile.first * heads + head) * dim, lane, dim, whole);
    for (int key = tile.from + (int)warp * KEYS; key < end; key += WARPS * KEYS) {
        float scores[KEYS];
        float higher = greatest;
        for (int n = 0; n < KEYS; n++) {
            float values[VALUES], product = 0.0f;
            int at = min(key + n, end - 1);
            load(values, k + ((size_t)at * kv_heads + kv) * dim, lane, dim, whole);
            for (int i = 0; i < VALUES; i++) {
                product += query[i] * values[i];
            }
            product = warp_sum(product) * scale;
            scores[n] = key + n < end ? product : -INFINITE;
            higher = fmaxf(higher, scores[n]);
        }
        float shrink = expf(greatest - higher);
        greatest = higher;
        total *= shrink;
        for (int i = 0; i < VALUES; i++) {
            sum[i] *= shrink;
        }
        for (int n = 0; n < KEYS; n++) {
            float values[VALUES], weight = expf(scores[n] - greatest);
            int at = min(key + n, end - 1);
            load(values, v + ((size_t)at * kv_heads + kv) * dim, lane, dim, whole);
            total += weight;
            for (int i = 0; i < VALUES; i++) {
                sum[i] += weight * values[i];
            }
        }
    }
    for (int i = 0; i < VALUES; i++) {
        sums[warp][lane * VALUES + i] = sum[i];
    }
    if (lane == 0) {
        most[warp] = greatest;
        totals[warp] = total;
    }
    __syncthreads();
    float highest = most[0], all = 0.0f;
    for (int n = 1; n < WARPS; n++) {
        highest = fmaxf(highest, most[n]);
    }
    for (int n = 0; n < WARPS; n++) {
        // A warp that had no key has found nothing.
        all += expf(most[n] - highest) * totals[n];
    }
    size_t to = ((size_t)tile.first * heads + head) * dim;
    for (unsigned at = threadIdx.x; at < dim; at += WARPS * WARP) {
        float value = 0.0f;
        for (int n = 0; n < WARPS; n++) {
            value += expf(most[n] - highest) * sums[n][at];
        }
        narrow(value / all, out[to + at]);
    }
    if (threadIdx.x == 0) {
        normalisers[(size_t)head * queries + tile.first] = highest + logf(all);
    }
}
