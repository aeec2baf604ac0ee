// AdamW on f32 weights, with a copy of them as the model reads it. Compiled without fused multiply-adds: the same bits as on the CPU.

// One thread for each value; `copy` may be null.
KERNEL(256) adamw(float *values, const float *gradient, float *first, float *second, ELEMENT *copy, size_t count, float scale,
                  float keep, float beta1_rest, float beta2, float beta2_rest, float root_correction, float epsilon, float step) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) {
        return;
    }
    float slope = gradient[at] * scale;
    float mean = first[at];
    mean += beta1_rest * (slope - mean);
    float square = second[at] * beta2 + beta2_rest * slope * slope;
    float value = values[at] * keep - step * (mean / (sqrtf(square) / root_correction + epsilon));
    first[at] = mean;
    second[at] = square;
    values[at] = value;
    if (copy) {
        narrow(value, copy[at]);
    }
}

// Sums of squares, one for each block, which are added up elsewhere.
KERNEL(256) squares(const float *gradient, double *sums, size_t count) {
    __shared__ double place[256];
    double sum = 0.0;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (size_t)gridDim.x * blockDim.x) {
        sum += (double)gradient[at] * (double)gradient[at];
    }
    place[threadIdx.x] = sum;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            place[threadIdx.x] += place[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = place[0];
    }
}
