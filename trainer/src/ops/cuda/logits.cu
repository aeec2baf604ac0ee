// How likely is each target among logits, how uncertain is the distribution, and how do both change with the logits?

// One block for each row: natural logarithms of the target's probability and of the sum of e^(logit * sharpness), and the entropy.
KERNEL(512) read_logits(const ELEMENT *logits, const unsigned *targets, float *logprobs, float *entropies, float *normalisers,
                        unsigned vocabulary, float sharpness) {
    __shared__ float place[WARP];
    const ELEMENT *row = logits + (size_t)blockIdx.x * vocabulary;
    float greatest = -INFINITE;
    for (unsigned at = threadIdx.x; at < vocabulary; at += blockDim.x) {
        greatest = fmaxf(greatest, widen(row[at]));
    }
    greatest = block_greatest(greatest, place) * sharpness;
    float total = 0.0f, weighed = 0.0f;
    for (unsigned at = threadIdx.x; at < vocabulary; at += blockDim.x) {
        float below = widen(row[at]) * sharpness - greatest;
        float share = expf(below);
        total += share;
        // Where e^x is 0 x may be infinite.
        weighed += share * fmaxf(below, -100.0f);
    }
    total = block_sum(total, place);
    weighed = block_sum(weighed, place);
    if (threadIdx.x == 0) {
        unsigned target = targets[blockIdx.x];
        float normaliser = greatest + logf(total);
        float chosen = target < vocabulary ? widen(row[target]) * sharpness : -INFINITE;
        logprobs[blockIdx.x] = chosen - normaliser;
        entropies[blockIdx.x] = logf(total) - weighed / total;
        normalisers[blockIdx.x] = normaliser;
    }
}

// One block for each row. `slopes` and `spreads` are the loss's gradients of log-probabilities and entropies.
KERNEL(512) logits_back(const ELEMENT *logits, const unsigned *targets, const float *normalisers, const float *entropies,
                        const float *slopes, const float *spreads, ELEMENT *out, unsigned vocabulary, float sharpness) {
    const ELEMENT *row = logits + (size_t)blockIdx.x * vocabulary;
    ELEMENT *to = out + (size_t)blockIdx.x * vocabulary;
    float normaliser = normalisers[blockIdx.x], entropy = entropies[blockIdx.x];
    float slope = slopes[blockIdx.x] * sharpness, spread = spreads[blockIdx.x] * sharpness;
    unsigned target = targets[blockIdx.x];
    for (unsigned at = threadIdx.x; at < vocabulary; at += blockDim.x) {
        float logprob = widen(row[at]) * sharpness - normaliser;
        // d logprob / d logit = [target] - p; d entropy / d logit = -p (log p + entropy)
        float value = -expf(logprob) * (slope + spread * (fmaxf(logprob, -100.0f) + entropy));
        narrow(at == target ? value + slope : value, to[at]);
    }
}
