// Root-mean-square normalisation: x / sqrt(mean(x^2) + eps) * weight.

// One block for each row.
KERNEL(256) rms_norm(const ELEMENT *x, const ELEMENT *weight, ELEMENT *out, unsigned width, float eps) {
    __shared__ float place[WARP];
    size_t first = (size_t)blockIdx.x * width;
    float square = 0.0f;
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        float value = widen(x[first + at]);
        square += value * value;
    }
    float inverse = 1.0f / sqrtf(block_sum(square, place) / width + eps);
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        narrow(widen(x[first + at]) * inverse * widen(weight[at]), out[first + at]);
    }
}

// One block for each row; leaves 1 / sqrt(mean(x^2) + eps) of it for the weight's gradient.
KERNEL(256) rms_norm_back(const ELEMENT *x, const ELEMENT *weight, const ELEMENT *gradient, ELEMENT *out, float *inverses,
                          unsigned width, float eps) {
    __shared__ float place[WARP];
    size_t first = (size_t)blockIdx.x * width;
    float square = 0.0f, product = 0.0f;
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        float value = widen(x[first + at]);
        square += value * value;
        product += value * widen(gradient[first + at]) * widen(weight[at]);
    }
    float inverse = 1.0f / sqrtf(block_sum(square, place) / width + eps);
    float back = block_sum(product, place) / width * inverse * inverse;
    for (unsigned at = threadIdx.x; at < width; at += blockDim.x) {
        float slope = widen(gradient[first + at]) * widen(weight[at]);
        narrow(inverse * (slope - widen(x[first + at]) * back), out[first + at]);
    }
    if (threadIdx.x == 0) {
        inverses[blockIdx.x] = inverse;
    }
}

// The weight's share of some rows: block (i, n) takes columns from 32 i on of rows from n `share` on. `shares` is [blocks n, width].
KERNEL(256) rms_norm_shares(const ELEMENT *x, const ELEMENT *gradient, const float *inverses, float *shares, unsigned rows,
                            unsigned width, unsigned share) {
    __shared__ float sums[256 / WARP][WARP];
    unsigned lane = threadIdx.x % WARP, line = threadIdx.x / WARP;
    unsigned column = blockIdx.x * WARP + lane;
    unsigned first = blockIdx.y * share;
    unsigned end = min(first + share, rows);
    float sum = 0.0f;
    if (column < width) {
        for (unsigned row = first + line; row < end; row += 256 / WARP) {
            size_t at = (size_t)row * width + column;
            sum += widen(gradient[at]) * widen(x[at]) * inverses[row];
        }
    }
    sums[line][lane] = sum;
    __syncthreads();
    if (line == 0 && column < width) {
        for (unsigned other = 1; other < 256 / WARP; other++) {
            sum += sums[other][lane];
        }
        shares[(size_t)blockIdx.y * width + column] = sum;
    }
}

// Adds up the shares; one thread for each column.
KERNEL(256) rms_norm_weight(const float *shares, float *out, unsigned count, unsigned width) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) {
        return;
    }
    float sum = 0.0f;
    for (unsigned row = 0; row < count; row++) {
        sum += shares[(size_t)row * width + column];
    }
    out[column] = sum;
}
