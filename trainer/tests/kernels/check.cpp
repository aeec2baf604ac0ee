// Are the numbers of the CUDA kernels right? Their sources, compiled for the CPU, against plain loops in f64.
//
// `instances.h` is made by tools/check_kernels.py: a struct of kernels for each source, type of element and size of head.
#include "block.h"

#include "common.cuh"

#include "instances.h"
#include "plain.h"

using block::launch;
using plain::some;

static int wrong = 0, right = 0;
static unsigned seeds = 0;

// Memory as a device gives it: each piece begins at a round address.
template <class T>
struct Aligned {
    using value_type = T;
    Aligned() = default;
    template <class U>
    Aligned(const Aligned<U> &) {}
    T *allocate(size_t count) { return (T *)::operator new(count * sizeof(T), std::align_val_t(256)); }
    void deallocate(T *place, size_t) { ::operator delete(place, std::align_val_t(256)); }
    bool operator==(const Aligned &) const { return true; }
};

// Numbers as a kernel has them, in memory that ends where they do.
template <class T>
struct Memory {
    std::vector<T, Aligned<T>> values;

    // At least one, since address 0 has a meaning.
    explicit Memory(size_t count) : values(count) { values.reserve(1); }
    explicit Memory(const Numbers &numbers) : Memory(numbers.size()) {
        for (size_t at = 0; at < numbers.size(); at++) set(at, numbers[at]);
    }
    void set(size_t at, double number) {
        if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, float>) narrow((float)number, values[at]);
        else values[at] = (T)number;
    }
    // What they are, after rounding.
    Numbers numbers() const {
        Numbers numbers;
        for (auto value : values) {
            if constexpr (std::is_same_v<T, bf16>) numbers.push_back(widen(value));
            else numbers.push_back(value);
        }
        return numbers;
    }
    operator T *() { return values.data(); }
};

// The last place of an f32 or a bf16 that was rounded once, and the rounding of f32 sums.
// `rough` is how far off, as a share of the greatest, factors that were rounded to bf16 may bring a product.
template <class T>
void compare(const char *kernel, const std::string &shape, const char *what, const Memory<T> &found, const Numbers &expected,
             double rough = 0) {
    double most = 0, worst = 0;
    size_t place = 0;
    for (double number : expected) most = std::max(most, std::abs(number));
    double share = std::is_same_v<T, bf16> ? 1.0 / 256 : 4e-6;
    Numbers numbers = found.numbers();
    for (size_t at = 0; at < expected.size(); at++) {
        double error = std::abs(numbers[at] - expected[at]) / (share * std::abs(expected[at]) + (4e-6 + rough) * most + 1e-30);
        if (!(error <= worst)) worst = error, place = at;
        if (std::isnan(error)) break;
    }
    bool good = numbers.size() == expected.size() && worst <= 1;
    (good ? right : wrong)++;
    if (!good)
        std::printf("WRONG %s, %s, %s: at %zu expected %g, found %g\n", kernel, shape.c_str(), what, place, expected[place], numbers[place]);
}

template <class T>
const char *name() {
    return std::is_same_v<T, bf16> ? "bf16" : "f32";
}

template <class... Parts>
std::string shape(const char *element, const char *form, Parts... parts) {
    char text[200];
    std::snprintf(text, sizeof text, form, parts...);
    return std::string(element) + " " + text;
}

template <class K>
void norm(unsigned rows, unsigned width, double size) {
    using T = typename K::Element;
    auto label = shape(name<T>(), "[%u, %u]", rows, width);
    Numbers numbers = some(rows * width, 1);
    for (auto &number : numbers) number *= size;
    Memory<T> x(numbers), weight(some(width, 2)), g(some(rows * width, 3)), out(rows * width), to_x(rows * width);
    double eps = 1e-5;
    launch({rows, 1}, 256, ++seeds, [&] { K::rms_norm(x, weight, out, width, eps); });
    compare("rms_norm", label, "out", out, plain::rms_norm(x.numbers(), weight.numbers(), eps));

    Numbers expected, expected_weight;
    plain::rms_norm_back(x.numbers(), weight.numbers(), g.numbers(), eps, expected, expected_weight);
    Memory<float> inverses(rows);
    launch({rows, 1}, 256, ++seeds, [&] { K::rms_norm_back(x, weight, g, to_x, inverses, width, eps); });
    compare("rms_norm_back", label, "x", to_x, expected);
    unsigned share = 5, blocks = (rows + share - 1) / share;
    Memory<float> shares(blocks * width), to_weight(width);
    launch({(width + 31) / 32, blocks}, 256, ++seeds, [&] { K::rms_norm_shares(x, g, inverses, shares, rows, width, share); });
    launch({(width + 255) / 256, 1}, 256, ++seeds, [&] { K::rms_norm_weight(shares, to_weight, blocks, width); });
    compare("rms_norm_weight", label, "weight", to_weight, expected_weight);
}

template <class K>
void rotary(unsigned tokens, unsigned heads, unsigned half) {
    using T = typename K::Element;
    unsigned width = heads * 2 * half;
    auto label = shape(name<T>(), "[%u, %u x %u]", tokens, heads, 2 * half);
    Memory<T> x(some(tokens * width, 1)), out(tokens * width), back(tokens * width);
    Memory<float> cosines(some(tokens * half, 2)), sines(some(tokens * half, 3));
    launch({tokens, 1}, 256, ++seeds, [&] { K::rotary(x, cosines, sines, out, width, half, 1.0f); });
    compare("rotary", label, "out", out, plain::rotary(x.numbers(), cosines.numbers(), sines.numbers(), tokens, 1));
    launch({tokens, 1}, 256, ++seeds, [&] { K::rotary(x, cosines, sines, back, width, half, -1.0f); });
    compare("rotary", label, "back", back, plain::rotary(x.numbers(), cosines.numbers(), sines.numbers(), tokens, -1));
}

template <class K>
void swiglu(size_t count) {
    using T = typename K::Element;
    auto label = shape(name<T>(), "[%zu]", count);
    Numbers gates = some(count, 1);
    for (size_t at = 0; at < count; at += 7) gates[at] *= 40;
    Memory<T> gate(gates), up(some(count, 2)), g(some(count, 3)), out(count), to_gate(count), to_up(count);
    unsigned each = 256 * (16 / sizeof(T)), blocks = (count + each - 1) / each;
    launch({blocks, 1}, 256, ++seeds, [&] { K::swiglu(gate, up, out, count); });
    compare("swiglu", label, "out", out, plain::swiglu(gate.numbers(), up.numbers()));
    Numbers expected_gate, expected_up;
    plain::swiglu_back(gate.numbers(), up.numbers(), g.numbers(), expected_gate, expected_up);
    launch({blocks, 1}, 256, ++seeds, [&] { K::swiglu_back(gate, up, g, to_gate, to_up, count); });
    compare("swiglu_back", label, "gate", to_gate, expected_gate);
    compare("swiglu_back", label, "up", to_up, expected_up);
}

template <class K>
void logits(unsigned rows, unsigned vocabulary, double size, double sharpness, bool masked) {
    using T = typename K::Element;
    auto label = shape(name<T>(), "[%u, %u] x %g%s", rows, vocabulary, size, masked ? ", masked" : "");
    Numbers numbers = some(rows * vocabulary, 1);
    for (auto &number : numbers) number *= size;
    std::vector<unsigned> targets;
    for (unsigned row = 0; row < rows; row++) targets.push_back(row * 7919 % vocabulary);
    if (masked)
        for (size_t at = 0; at < numbers.size(); at += 3)
            if (at % vocabulary != targets[at / vocabulary]) numbers[at] = -INFINITY;
    Memory<T> x(numbers), out(rows * vocabulary);
    Memory<unsigned> chosen(rows);
    chosen.values.assign(targets.begin(), targets.end());
    Memory<float> logprobs(rows), entropies(rows), normalisers(rows), slopes(some(rows, 2)), spreads(some(rows, 3));
    launch({rows, 1}, 512, ++seeds, [&] { K::read_logits(x, chosen, logprobs, entropies, normalisers, vocabulary, sharpness); });
    auto expected = plain::read_logits(x.numbers(), targets, (float)sharpness);
    compare("read_logits", label, "logprobs", logprobs, expected.logprobs);
    compare("read_logits", label, "entropies", entropies, expected.entropies);
    compare("read_logits", label, "normalisers", normalisers, expected.normalisers);
    launch({rows, 1}, 512, ++seeds,
           [&] { K::logits_back(x, chosen, normalisers, entropies, slopes, spreads, out, vocabulary, sharpness); });
    compare("logits_back", label, "logits", out,
            plain::logits_back(x.numbers(), targets, slopes.numbers(), spreads.numbers(), (float)sharpness));
}

template <class K>
void embedding(unsigned tokens, unsigned vocabulary, unsigned width) {
    using T = typename K::Element;
    auto label = shape(name<T>(), "%u of [%u, %u]", tokens, vocabulary, width);
    Memory<T> weight(some(vocabulary * width, 1)), g(some(tokens * width, 2)), out(tokens * width);
    Memory<unsigned> chosen(tokens);
    for (unsigned n = 0; n < tokens; n++) chosen.values[n] = n * n * 31 % vocabulary;
    launch({tokens, 1}, 256, ++seeds, [&] { K::embedding(weight, chosen, out, vocabulary, width); });
    Numbers table = weight.numbers(), gradient = g.numbers(), expected, sums = some(vocabulary * width, 3);
    Memory<float> sum(sums);
    sums = sum.numbers();
    for (unsigned n = 0; n < tokens; n++)
        for (unsigned i = 0; i < width; i++) {
            expected.push_back(table[chosen.values[n] * width + i]);
            sums[chosen.values[n] * width + i] += gradient[n * width + i];
        }
    compare("embedding", label, "out", out, expected);
    launch({tokens, 1}, 256, ++seeds, [&] { K::embedding_back(g, chosen, sum, tokens, vocabulary, width); });
    compare("embedding_back", label, "sum", sum, sums);
}

template <class K>
void adamw(size_t count) {
    using T = typename K::Element;
    auto label = shape(name<T>(), "[%zu]", count);
    Memory<float> values(some(count, 1)), g(some(count, 2)), first(some(count, 3)), second(count);
    for (size_t at = 0; at < count; at++) second.values[at] = (float)(at % 13) * 0.1f;
    Memory<T> copy(count);
    float scale = 0.5f, keep = 0.999f, beta1_rest = 0.1f, beta2 = 0.99f, beta2_rest = 0.01f, root = 0.3f, epsilon = 1e-8f, step = 0.01f;
    Memory<float> v(count), m(count), s(count);
    for (size_t at = 0; at < count; at++) {
        float slope = g.values[at] * scale;
        m.values[at] = first.values[at] + beta1_rest * (slope - first.values[at]);
        s.values[at] = second.values[at] * beta2 + beta2_rest * slope * slope;
        v.values[at] = values.values[at] * keep - step * (m.values[at] / (std::sqrt(s.values[at]) / root + epsilon));
    }
    unsigned blocks = (count + 255) / 256;
    launch({blocks, 1}, 256, ++seeds, [&] {
        K::adamw(values, g, first, second, copy, count, scale, keep, beta1_rest, beta2, beta2_rest, root, epsilon, step);
    });
    compare("adamw", label, "values", values, v.numbers());
    compare("adamw", label, "first", first, m.numbers());
    compare("adamw", label, "second", second, s.numbers());
    compare("adamw", label, "copy", copy, v.numbers());
    Memory<double> sums(2);
    launch({2, 1}, 256, ++seeds, [&] { K::squares(g, sums, count); });
    Memory<double> sum(Numbers{sums.values[0] + sums.values[1]});
    compare("squares", label, "sum", sum, {plain::inner(g.numbers(), g.numbers())});
}

struct Tiles {
    std::vector<int> words;
    unsigned count = 0;

    void add(std::initializer_list<int> tile) {
        words.insert(words.end(), tile);
        count++;
    }
    template <class Tile>
    const Tile *of() const {
        static_assert(sizeof(Tile) == 5 * sizeof(int));
        return (const Tile *)words.data();
    }
};

// Lengths of segments: queries, and keys before them.
using Lengths = std::vector<std::pair<int, int>>;

template <class A, class D, class M>
void attention(plain::Heads h, const Lengths &lengths, double size) {
    using T = typename A::Element;
    std::vector<plain::Segment> segments;
    int queries = 0, keys = 0, most = 0;
    for (auto [count, before] : lengths) {
        segments.push_back({queries, queries + count, keys, keys + before + count});
        queries += count, keys += before + count;
        most = std::max(most, before + count);
    }
    auto label = shape(name<T>(), "%d heads of %d by %d in %d, %d queries, segments of %d keys", h.heads, h.dim, h.kv_heads, A::DIM_, queries, most);
    Numbers numbers = some(queries * h.heads * h.dim, 1);
    for (auto &number : numbers) number *= size;
    Memory<T> q(numbers), k(some(keys * h.kv_heads * h.dim, 2)), v(some(keys * h.kv_heads * h.dim, 3));
    Memory<T> g(some(numbers.size(), 4)), out(numbers.size()), decoded(numbers.size());
    Memory<float> normalisers(h.heads * queries), also(h.heads * queries);
    Tiles of_queries, of_keys, singles;
    int tile = A::TILE_;
    // Four warps share the larger tiles of tensor cores, eight threads a row of the others.
    bool mma = tile == 64;
    unsigned threads = mma ? 128 : tile * 8;
    double rough = mma ? 4e-3 : 0;
    for (auto &segment : segments) {
        int shift = segment.to - segment.last;
        for (int at = segment.first; at < segment.last; at += tile)
            of_queries.add({at, std::min(tile, segment.last - at), segment.from, segment.to, shift});
        for (int at = segment.first; at < segment.last; at++) singles.add({at, 1, segment.from, segment.to, shift});
        for (int at = segment.from; at < segment.to; at += tile)
            of_keys.add({at, std::min(tile, segment.to - at), segment.first, segment.last, shift});
    }
    float scale = 1 / std::sqrt((float)h.dim);
    unsigned all = queries, heads = h.heads, kv_heads = h.kv_heads, dim = h.dim;
    Numbers expected_normalisers;
    Numbers expected = plain::attention(q.numbers(), k.numbers(), v.numbers(), h, segments, expected_normalisers);
    launch({of_queries.count, heads}, threads, ++seeds, [&] {
        A::attention(q, k, v, out, normalisers, of_queries.of<typename A::Tile>(), all, heads, kv_heads, dim, scale);
    });
    compare("attention", label, "out", out, expected, rough);
    compare("attention", label, "normalisers", normalisers, expected_normalisers);
    launch({singles.count, heads}, 256, ++seeds, [&] {
        D::decode(q, k, v, decoded, also, singles.of<typename D::Tile>(), all, heads, kv_heads, dim, scale);
    });
    compare("decode", label, "out", decoded, expected);
    compare("decode", label, "normalisers", also, expected_normalisers);

    Memory<float> means(h.heads * queries);
    Memory<T> to_q(q.values.size()), to_k(k.values.size()), to_v(v.values.size());
    Numbers expected_q, expected_k, expected_v;
    plain::attention_back(q.numbers(), k.numbers(), v.numbers(), out.numbers(), normalisers.numbers(), g.numbers(), h, segments, expected_q,
                          expected_k, expected_v);
    launch({all, 1}, 256, ++seeds, [&] { M::attention_means(out, g, means, all, heads, dim); });
    launch({of_queries.count, heads}, threads, ++seeds, [&] {
        A::attention_back_queries(q, k, v, g, normalisers, means, to_q, of_queries.of<typename A::Tile>(), all, heads, kv_heads, dim, scale);
    });
    launch({of_keys.count, kv_heads}, threads, ++seeds, [&] {
        A::attention_back_keys(q, k, v, g, normalisers, means, to_k, to_v, of_keys.of<typename A::Tile>(), all, heads, kv_heads, dim, scale);
    });
    compare("attention_back_queries", label, "q", to_q, expected_q, rough);
    compare("attention_back_keys", label, "k", to_k, expected_k, rough);
    compare("attention_back_keys", label, "v", to_v, expected_v, rough);
}

// The gradients above are compared with formulas; these are compared with differences.
static void prove() {
    bool good = true;
    double eps = 1e-3, sharpness = 0.7;
    Numbers x = some(3 * 5, 1), y = some(3 * 5, 2), weight = some(5, 3), g = some(3 * 5, 4), a, b, c;
    plain::rms_norm_back(x, weight, g, eps, a, b);
    auto norm = [&] { return plain::inner(plain::rms_norm(x, weight, eps), g); };
    good &= plain::proves("rms_norm by x", x, a, norm) && plain::proves("rms_norm by weight", weight, b, norm);
    plain::swiglu_back(x, y, g, a, b);
    auto gate = [&] { return plain::inner(plain::swiglu(x, y), g); };
    good &= plain::proves("swiglu by gate", x, a, gate) && plain::proves("swiglu by up", y, b, gate);
    std::vector<unsigned> targets = {1, 4, 0};
    Numbers slopes = some(3, 5), spreads = some(3, 6);
    auto loss = [&] {
        auto read = plain::read_logits(x, targets, sharpness);
        return plain::inner(read.logprobs, slopes) + plain::inner(read.entropies, spreads);
    };
    good &= plain::proves("read_logits", x, plain::logits_back(x, targets, slopes, spreads, sharpness), loss);
    plain::Heads h{4, 2, 3};
    std::vector<plain::Segment> segments = {{0, 3, 0, 5}, {3, 7, 5, 9}};
    Numbers q = some(7 * 12, 7), k = some(9 * 6, 8), v = some(9 * 6, 9), d = some(7 * 12, 10), normalisers, ignored;
    Numbers out = plain::attention(q, k, v, h, segments, normalisers);
    plain::attention_back(q, k, v, out, normalisers, d, h, segments, a, b, c);
    auto attend = [&] { return plain::inner(plain::attention(q, k, v, h, segments, ignored), d); };
    good &= plain::proves("attention by q", q, a, attend) && plain::proves("attention by k", k, b, attend);
    good &= plain::proves("attention by v", v, c, attend);
    // Turning back is the transposed matrix of turning.
    Numbers cosines = some(2 * 2, 11), sines = some(2 * 2, 12), r = some(2 * 8, 13), s = some(2 * 8, 14);
    auto turn = [&] { return plain::inner(plain::rotary(r, cosines, sines, 2, 1), s); };
    good &= plain::proves("rotary", r, plain::rotary(s, cosines, sines, 2, -1), turn);
    (good ? right : wrong)++;
}

template <class Norm, class Rotary, class Swiglu, class Logits, class Embedding, class Adamw>
void check() {
    norm<Norm>(1, 2, 1), norm<Norm>(3, 33, 1), norm<Norm>(12, 64, 1e-4), norm<Norm>(7, 576, 30);
    rotary<Rotary>(1, 1, 1), rotary<Rotary>(5, 3, 4), rotary<Rotary>(3, 9, 32);
    for (size_t count : {1, 8, 257, 2048, 4099}) swiglu<Swiglu>(count), adamw<Adamw>(count);
    logits<Logits>(1, 1, 1, 1, false), logits<Logits>(3, 5, 1, 0.5, false), logits<Logits>(4, 1031, 10, 1, false);
    logits<Logits>(2, 515, 100, 2, false), logits<Logits>(3, 700, 1, 1, true);
    embedding<Embedding>(1, 1, 1), embedding<Embedding>(40, 17, 33), embedding<Embedding>(700, 17, 20), embedding<Embedding>(3, 9, 300);
}

template <class A, class D, class M>
void check_attention() {
    int dim = A::DIM_;
    Lengths rows = {{1, 0}, {A::TILE_, 0}, {A::TILE_ + 1, 0}, {3, 0}};
    Lengths cache = {{1, 0}, {1, 70}, {2, A::TILE_ + 3}, {1, 3}, {A::TILE_ + 2, A::TILE_ - 1}};
    attention<A, D, M>({1, 1, dim}, rows, 1);
    attention<A, D, M>({4, 2, dim}, cache, 1);
    attention<A, D, M>({1, 1, dim}, {{2 * A::TILE_ + 5, 0}, {1, 0}, {1, 0}}, 8);
    // Tensor cores take heads of all values alone.
    if (A::TILE_ == 64) return;
    attention<A, D, M>({3, 1, dim - 3}, rows, 1);
    attention<A, D, M>({2, 2, dim / 2 + 2}, {{2 * A::TILE_ + 5, 0}, {1, 0}}, 8);
}

int main(int count, char **arguments) {
    std::string element = count > 1 ? arguments[1] : "";
    if (element == "float") {
        prove();
        check<norm_float, rotary_float, swiglu_float, logits_float, embedding_float, adamw_float>();
    } else {
        check<norm_bf16, rotary_bf16, swiglu_bf16, logits_bf16, embedding_bf16, adamw_bf16>();
    }
#define ATTENTION(attention, decode, means) \
    if (std::is_same_v<attention::Element, bf16> == (element != "float")) check_attention<attention, decode, means>();
    ATTENTION_INSTANCES(ATTENTION)
    std::printf("check_kernels: %s: %d comparisons are right, %d wrong\n", element.c_str(), right, wrong);
    return wrong != 0;
}
