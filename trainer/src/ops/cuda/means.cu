// What the backward pass of attention needs of each row before its tiles.

// What a row of scores loses to its softmax: out . gradient. Block n takes query n; one warp after the other takes a head.
KERNEL(256) attention_means(const ELEMENT *out, const ELEMENT *gradient, float *means, unsigned queries, unsigned heads, unsigned dim) {
    unsigned lane = threadIdx.x % WARP;
    for (unsigned head = threadIdx.x / WARP; head < heads; head += 256 / WARP) {
        size_t first = ((size_t)blockIdx.x * heads + head) * dim;
        float sum = 0.0f;
        for (unsigned at = lane; at < dim; at += WARP) {
            sum += widen(out[first + at]) * widen(gradient[first + at]);
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            means[(size_t)head * queries + blockIdx.x] = sum;
        }
    }
}
