// silu(gate) * up, where silu(x) = x / (1 + e^-x).

// Elements in 16 bytes: what a thread reads at once.
#define VALUES (16 / (int)sizeof(ELEMENT))
typedef Pack<ELEMENT, VALUES> Values;

__device__ inline void forward(ELEMENT gate, ELEMENT up, ELEMENT &out) {
    float g = widen(gate);
    narrow(g / (1.0f + expf(-g)) * widen(up), out);
}

__device__ inline void back(ELEMENT gate, ELEMENT up, ELEMENT gradient, ELEMENT &to_gate, ELEMENT &to_up) {
    float g = widen(gate), d = widen(gradient);
    float s = 1.0f / (1.0f + expf(-g));
    narrow(d * g * s, to_up);
    narrow(d * widen(up) * s * (1.0f + g * (1.0f - s)), to_gate);
}

// One thread for VALUES elements. All pointers are those of whole packs but for the last elements.
KERNEL(256) swiglu(const ELEMENT *gate, const ELEMENT *up, ELEMENT *out, size_t count) {
    size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * VALUES;
    if (first + VALUES <= count) {
        Values g = *(const Values *)(gate + first), u = *(const Values *)(up + first), o;
        for (int at = 0; at < VALUES; at++) {
            forward(g.values[at], u.values[at], o.values[at]);
        }
        *(Values *)(out + first) = o;
        return;
    }
    for (size_t at = first; at < count; at++) {
        forward(gate[at], up[at], out[at]);
    }
}

KERNEL(256) swiglu_back(const ELEMENT *gate, const ELEMENT *up, const ELEMENT *gradient, ELEMENT *to_gate, ELEMENT *to_up,
                        size_t count) {
    size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * VALUES;
    if (first + VALUES <= count) {
        Values g = *(const Values *)(gate + first), u = *(const Values *)(up + first);
        Values d = *(const Values *)(gradient + first), dg, du;
        for (int at = 0; at < VALUES; at++) {
            back(g.values[at], u.values[at], d.values[at], dg.values[at], du.values[at]);
        }
        *(Values *)(to_gate + first) = dg;
        *(Values *)(to_up + first) = du;
        return;
    }
    for (size_t at = first; at < count; at++) {
        back(gate[at], up[at], gradient[at], to_gate[at], to_up[at]);
    }
}
