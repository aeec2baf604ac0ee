// Tokens to vectors, and back.

// One block for each token.
KERNEL(256) embedding(const ELEMENT *weight, const unsigned *tokens, ELEMENT *out, unsigned width) {
    size_t from = (size_t)tokens[blockIdx.x] * width, to = (size_t)blockIdx.x * width;
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        out[to + at] = weight[from + at];
    }
}

// One block for each token that there is: number n stands at the places `places[starts[n]]` to `places[starts[n + 1] - 1]`, whose
// gradients are added to row `tokens[n]` in that order.
KERNEL(256) embedding_back(const ELEMENT *gradient, const unsigned *tokens, const unsigned *starts, const unsigned *places, float *sum,
                           unsigned width) {
    size_t to = (size_t)tokens[blockIdx.x] * width;
    unsigned first = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        float total = 0.0f;
        for (unsigned place = first; place < end; place++) {
            total += widen(gradient[(size_t)places[place] * width + at]);
        }
        sum[to + at] += total;
    }
}
