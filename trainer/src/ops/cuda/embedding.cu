// Tokens to vectors, and back.

// One block for each token; one that is outside of the vocabulary gets zeros.
KERNEL(256) embedding(const ELEMENT *weight, const unsigned *tokens, ELEMENT *out, unsigned vocabulary, unsigned width) {
    unsigned token = tokens[blockIdx.x];
    size_t from = (size_t)token * width, to = (size_t)blockIdx.x * width;
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        out[to + at] = token < vocabulary ? weight[from + at] : ELEMENT{};
    }
}

// One block for each token. That of the first place of a token adds up the gradients of all its places, in their order, to a row of
// `sum`; those of its other places have nothing to do.
KERNEL(256) embedding_back(const ELEMENT *gradient, const unsigned *tokens, float *sum, unsigned count, unsigned vocabulary,
                           unsigned width) {
    __shared__ unsigned same[256 / WARP];
    unsigned token = tokens[blockIdx.x], lane = threadIdx.x % WARP;
    if (token >= vocabulary) {
        return;
    }
    for (unsigned first = 0; first < blockIdx.x; first += 256) {
        unsigned place = first + threadIdx.x;
        if (__syncthreads_or(place < blockIdx.x && tokens[place] == token)) {
            return;
        }
    }
    // Each pass over the places is for 256 columns.
    for (unsigned column = 0; column < width; column += 256) {
        unsigned at = column + threadIdx.x;
        float total = 0.0f;
        for (unsigned first = blockIdx.x; first < count; first += 256) {
            unsigned place = first + threadIdx.x;
            unsigned found = __ballot_sync(ALL_LANES, place < count && tokens[place] == token);
            __syncthreads();
            if (lane == 0) {
                same[threadIdx.x / WARP] = found;
            }
            __syncthreads();
            for (unsigned warp = 0; warp < 256 / WARP; warp++) {
                for (unsigned rest = same[warp]; rest != 0; rest &= rest - 1) {
                    size_t row = first + warp * WARP + __ffs(rest) - 1;
                    total += at < width ? widen(gradient[row * width + at]) : 0.0f;
                }
            }
        }
        if (at < width) {
            sum[(size_t)token * width + at] += total;
        }
    }
}
