// Rotary embedding: the two halves of each head are the two coordinates of points that are turned.

// One block for each token. `half` is half the values of a head, `width` those of all heads; `sign` is -1 to turn back.
KERNEL(256) rotary(const ELEMENT *x, const float *cosines, const float *sines, ELEMENT *out, unsigned width, unsigned half,
                   float sign) {
    size_t first = (size_t)blockIdx.x * width;
    size_t angles = (size_t)blockIdx.x * half;
    for (unsigned at = threadIdx.x; at < width / 2; at += blockDim.x) {
        unsigned pair = at % half;
        size_t left = first + (size_t)(at / half) * 2 * half + pair;
        float a = widen(x[left]), b = widen(x[left + half]);
        float cosine = cosines[angles + pair], sine = sign * sines[angles + pair];
        narrow(a * cosine - b * sine, out[left]);
        narrow(b * cosine + a * sine, out[left + half]);
    }
}
