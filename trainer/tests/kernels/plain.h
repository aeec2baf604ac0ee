// The operations as plain loops in f64, and a proof of their gradients by differences.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

using Numbers = std::vector<double>;

namespace plain {

// Rows of q from `first` to `last` belong to rows of k from `from` to `to`; the last query sees the last key.
struct Segment {
    int first, last, from, to;
};

struct Heads {
    int heads, kv_heads, dim;
};

inline Numbers rms_norm(const Numbers &x, const Numbers &weight, double eps) {
    size_t width = weight.size();
    Numbers out(x.size());
    for (size_t row = 0; row < x.size(); row += width) {
        double square = 0;
        for (size_t at = 0; at < width; at++) square += x[row + at] * x[row + at];
        for (size_t at = 0; at < width; at++) out[row + at] = x[row + at] / std::sqrt(square / width + eps) * weight[at];
    }
    return out;
}

inline void rms_norm_back(const Numbers &x, const Numbers &weight, const Numbers &g, double eps, Numbers &to_x, Numbers &to_weight) {
    size_t width = weight.size();
    to_x.assign(x.size(), 0);
    to_weight.assign(width, 0);
    for (size_t row = 0; row < x.size(); row += width) {
        double square = 0, product = 0;
        for (size_t at = 0; at < width; at++) {
            square += x[row + at] * x[row + at];
            product += x[row + at] * g[row + at] * weight[at];
        }
        double root = std::sqrt(square / width + eps);
        for (size_t at = 0; at < width; at++) {
            to_x[row + at] = g[row + at] * weight[at] / root - x[row + at] * product / (width * root * root * root);
            to_weight[at] += g[row + at] * x[row + at] / root;
        }
    }
}

inline Numbers rotary(const Numbers &x, const Numbers &cosines, const Numbers &sines, int tokens, double sign) {
    int half = cosines.size() / tokens, width = x.size() / tokens;
    Numbers out(x.size());
    for (int token = 0; token < tokens; token++)
        for (int head = 0; head < width / (2 * half); head++)
            for (int at = 0; at < half; at++) {
                int left = token * width + head * 2 * half + at, right = left + half;
                double c = cosines[token * half + at], s = sign * sines[token * half + at];
                out[left] = x[left] * c - x[right] * s;
                out[right] = x[right] * c + x[left] * s;
            }
    return out;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline Numbers swiglu(const Numbers &gate, const Numbers &up) {
    Numbers out(gate.size());
    for (size_t at = 0; at < out.size(); at++) out[at] = gate[at] * sigmoid(gate[at]) * up[at];
    return out;
}

inline void swiglu_back(const Numbers &gate, const Numbers &up, const Numbers &g, Numbers &to_gate, Numbers &to_up) {
    to_gate.assign(gate.size(), 0);
    to_up.assign(gate.size(), 0);
    for (size_t at = 0; at < gate.size(); at++) {
        double s = sigmoid(gate[at]);
        to_up[at] = g[at] * gate[at] * s;
        to_gate[at] = g[at] * up[at] * (s + gate[at] * s * (1 - s));
    }
}

struct Read {
    Numbers logprobs, entropies, normalisers;
};

inline Read read_logits(const Numbers &logits, const std::vector<unsigned> &targets, double sharpness) {
    size_t rows = targets.size(), vocabulary = logits.size() / rows;
    Read read;
    for (size_t row = 0; row < rows; row++) {
        const double *x = &logits[row * vocabulary];
        double most = -INFINITY, total = 0, entropy = 0;
        for (size_t at = 0; at < vocabulary; at++) most = std::max(most, x[at] * sharpness);
        for (size_t at = 0; at < vocabulary; at++) total += std::exp(x[at] * sharpness - most);
        double normaliser = most + std::log(total);
        for (size_t at = 0; at < vocabulary; at++) {
            double logprob = x[at] * sharpness - normaliser;
            if (std::isfinite(logprob)) entropy -= std::exp(logprob) * logprob;
        }
        read.logprobs.push_back(x[targets[row]] * sharpness - normaliser);
        read.entropies.push_back(entropy);
        read.normalisers.push_back(normaliser);
    }
    return read;
}

inline Numbers logits_back(const Numbers &logits, const std::vector<unsigned> &targets, const Numbers &slopes, const Numbers &spreads,
                           double sharpness) {
    size_t rows = targets.size(), vocabulary = logits.size() / rows;
    Read read = read_logits(logits, targets, sharpness);
    Numbers out(logits.size());
    for (size_t at = 0; at < logits.size(); at++) {
        size_t row = at / vocabulary;
        double logprob = logits[at] * sharpness - read.normalisers[row], p = std::exp(logprob);
        out[at] = sharpness * slopes[row] * ((at % vocabulary == targets[row]) - p);
        if (p > 0) out[at] -= sharpness * spreads[row] * p * (logprob + read.entropies[row]);
    }
    return out;
}

inline double score(const Numbers &q, const Numbers &k, Heads h, int head, int i, int j) {
    int kv = head / (h.heads / h.kv_heads);
    double sum = 0;
    for (int at = 0; at < h.dim; at++) sum += q[(i * h.heads + head) * h.dim + at] * k[(j * h.kv_heads + kv) * h.dim + at];
    return sum;
}

// Calls `visit(head, query, keys it sees from, to)` for each.
inline void each(const std::vector<Segment> &segments, Heads h, const std::function<void(int, int, int, int)> &visit) {
    for (auto &segment : segments)
        for (int head = 0; head < h.heads; head++)
            for (int i = segment.first; i < segment.last; i++) visit(head, i, segment.from, segment.to - (segment.last - 1 - i));
}

inline Numbers attention(const Numbers &q, const Numbers &k, const Numbers &v, Heads h, const std::vector<Segment> &segments,
                         Numbers &normalisers) {
    int queries = q.size() / (h.heads * h.dim);
    Numbers out(q.size());
    normalisers.assign(h.heads * queries, 0);
    each(segments, h, [&](int head, int i, int from, int to) {
        double most = -INFINITY, total = 0, scale = 1 / std::sqrt((double)h.dim);
        for (int j = from; j < to; j++) most = std::max(most, score(q, k, h, head, i, j) * scale);
        for (int j = from; j < to; j++) total += std::exp(score(q, k, h, head, i, j) * scale - most);
        normalisers[head * queries + i] = most + std::log(total);
        for (int j = from; j < to; j++) {
            double weight = std::exp(score(q, k, h, head, i, j) * scale - normalisers[head * queries + i]);
            int kv = head / (h.heads / h.kv_heads);
            for (int at = 0; at < h.dim; at++)
                out[(i * h.heads + head) * h.dim + at] += weight * v[(j * h.kv_heads + kv) * h.dim + at];
        }
    });
    return out;
}

// The softmax's loss of a row is taken from `out`, as a backward pass gets it.
inline void attention_back(const Numbers &q, const Numbers &k, const Numbers &v, const Numbers &out, const Numbers &normalisers,
                           const Numbers &g, Heads h, const std::vector<Segment> &segments, Numbers &to_q, Numbers &to_k, Numbers &to_v) {
    int queries = q.size() / (h.heads * h.dim);
    to_q.assign(q.size(), 0);
    to_k.assign(k.size(), 0);
    to_v.assign(v.size(), 0);
    each(segments, h, [&](int head, int i, int from, int to) {
        double mean = 0, scale = 1 / std::sqrt((double)h.dim);
        int row = (i * h.heads + head) * h.dim, kv = head / (h.heads / h.kv_heads);
        for (int at = 0; at < h.dim; at++) mean += out[row + at] * g[row + at];
        for (int j = from; j < to; j++) {
            int other = (j * h.kv_heads + kv) * h.dim;
            double weight = std::exp(score(q, k, h, head, i, j) * scale - normalisers[head * queries + i]), product = 0;
            for (int at = 0; at < h.dim; at++) product += g[row + at] * v[other + at];
            double slope = weight * (product - mean) * scale;
            for (int at = 0; at < h.dim; at++) {
                to_q[row + at] += slope * k[other + at];
                to_k[other + at] += slope * q[row + at];
                to_v[other + at] += weight * g[row + at];
            }
        }
    });
}

inline Numbers some(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    Numbers numbers(count);
    for (auto &number : numbers) number = normal(random);
    return numbers;
}

inline double inner(const Numbers &a, const Numbers &b) {
    double sum = 0;
    for (size_t at = 0; at < a.size(); at++) sum += a[at] * b[at];
    return sum;
}

// Whether `gradient` is that of `loss` by `x`, along a few directions.
inline bool proves(const char *what, Numbers &x, const Numbers &gradient, const std::function<double()> &loss) {
    Numbers saved = x;
    for (unsigned seed = 0; seed < 3; seed++) {
        Numbers direction = some(x.size(), 900 + seed);
        double step = 1e-5;
        for (size_t at = 0; at < x.size(); at++) x[at] = saved[at] + step * direction[at];
        double above = loss();
        for (size_t at = 0; at < x.size(); at++) x[at] = saved[at] - step * direction[at];
        double below = loss();
        x = saved;
        double found = (above - below) / (2 * step), expected = inner(gradient, direction);
        if (!(std::abs(found - expected) <= 1e-7 * (1 + std::abs(expected)))) {
            std::printf("WRONG the plain gradient of %s: %g by differences, %g by formula\n", what, found, expected);
            return false;
        }
    }
    return true;
}

}  // namespace plain
