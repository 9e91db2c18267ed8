// Times reading and printing against strtod, snprintf, std::from_chars, std::to_chars and fast_float, and
// bulk encoding against memcpy, in one run. The numbers are cut into pieces that take some 20 to 50
// microseconds; contenders take turns piece by piece, and what counts is the sum of each one's fastest time
// for every piece, because on a shared machine everything slower is somebody else's work. Every answer is
// checked once before it is timed.
//
//     bench [ROUNDS] [--json]       the default is 200 rounds of 20,000 numbers in pieces of 1,000
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fast_float/fast_float.h>
#include <functional>
#include <random>
#include <string>
#include <vector>

#define MANTISSA_NUMBER_IMPLEMENTATION
#define MANTISSA_NUMBER_STATIC
#include "mantissa_number.h"

namespace {

constexpr size_t kCount = 20000, kPiece = 1000;

struct Dataset {
    std::string name;
    std::vector<std::string> texts;
    std::vector<double> values;
    double megabytes = 0;
};

Dataset make(const char *name, const std::function<std::string()> &text) {
    Dataset set;
    set.name = name;
    for (size_t index = 0; index < kCount; index++) {
        set.texts.push_back(text());
        set.values.push_back(std::strtod(set.texts.back().c_str(), nullptr));
        set.megabytes += static_cast<double>(set.texts.back().size()) / 1e6;
    }
    return set;
}

std::string print(const char *format, double value) {
    char out[64];
    return std::string(out, static_cast<size_t>(std::snprintf(out, sizeof out, format, value)));
}

std::string shortest(double value) {
    char out[64];
    return std::string(out, std::to_chars(out, out + 64, value).ptr);
}

std::vector<Dataset> datasets() {
    std::mt19937_64 random(20260601);
    std::uniform_real_distribution<double> unit(0, 1), longitude(-180, 180);
    std::normal_distribution<double> normal(0, 1);
    std::vector<Dataset> sets;
    sets.push_back(make("random", [&] { return print("%.17g", unit(random)); }));
    sets.push_back(make("canada", [&] { return print("%.15f", longitude(random) / 2); }));
    sets.push_back(make(
        "mesh", [&] { return shortest(static_cast<double>(static_cast<int>(normal(random) * 1e5)) / 1e6); }));
    sets.push_back(make("bits", [&] {
        double value;
        do {
            uint64_t bits = random();
            std::memcpy(&value, &bits, 8);
        } while (!(value - value == 0));
        return print("%.17g", value);
    }));
    sets.push_back(
        make("prices", [&] { return print("%.2f", static_cast<double>(random() % 1000000) / 100); }));
    sets.push_back(make("unix", [&] { return std::to_string(1600000000 + random() % 200000000); }));
    return sets;
}

uint64_t sink = 0;

struct Contender {
    std::string name;
    std::function<void(const Dataset &, size_t from)> run;
    std::vector<double> fastest = std::vector<double>(kCount / kPiece, 1e99);
    double best = 0;
};

double seconds(const std::function<void()> &work) {
    auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Read> std::function<void(const Dataset &, size_t)> reading(Read read) {
    return [read](const Dataset &set, size_t from) {
        double sum = 0;
        for (size_t index = from; index < from + kPiece; index++) {
            const std::string &text = set.texts[index];
            sum += read(text.data(), text.data() + text.size());
        }
        sink += mn__f64_bits(sum);
    };
}

template <class Write> std::function<void(const Dataset &, size_t)> printing(Write write) {
    return [write](const Dataset &set, size_t from) {
        char out[512];
        size_t length = 0;
        for (size_t index = from; index < from + kPiece; index++)
            length += static_cast<size_t>(write(out, set.values[index]) - out);
        sink += length + static_cast<unsigned char>(out[0]);
    };
}

double read_ours(const char *first, const char *last) {
    double value = 0;
    mn_parse_f64(first, last, &value);
    return value;
}

double read_fast_float(const char *first, const char *last) {
    double value = 0;
    fast_float::from_chars(first, last, value);
    return value;
}

double read_from_chars(const char *first, const char *last) {
    double value = 0;
    std::from_chars(first, last, value);
    return value;
}

double read_strtod(const char *first, const char *) { return std::strtod(first, nullptr); }

void check(const Dataset &set) {
    for (size_t index = 0; index < set.texts.size(); index++) {
        const std::string &text = set.texts[index];
        char out[64];
        double value = set.values[index], ours = read_ours(text.data(), text.data() + text.size());
        double back = read_ours(out, mn_write_f64(out, value));
        if (std::memcmp(&ours, &value, 8) != 0 || std::memcmp(&back, &value, 8) != 0) {
            std::fprintf(stderr, "wrong answer for %s\n", text.c_str());
            std::exit(1);
        }
    }
}

void compare(const char *what, const Dataset &set, std::vector<Contender> contenders, int rounds, bool json) {
    for (int round = 0; round < rounds; round++) {
        for (size_t piece = 0; piece < kCount / kPiece; piece++) {
            for (Contender &one : contenders) {
                double time = seconds([&] { one.run(set, piece * kPiece); });
                if (time < one.fastest[piece]) one.fastest[piece] = time;
            }
        }
    }
    for (Contender &one : contenders)
        for (double time : one.fastest) one.best += time;
    double best = 1e99;
    for (size_t index = 1; index < contenders.size(); index++)
        if (contenders[index].best < best) best = contenders[index].best;
    if (!json) std::printf("| %s %s |", what, set.name.c_str());
    for (const Contender &one : contenders) {
        double nanoseconds = one.best * 1e9 / kCount;
        if (json)
            std::printf(
                "{\"work\": \"%s\", \"data\": \"%s\", \"who\": \"%s\", \"ns\": %.2f, \"mb_s\": %.0f}\n", what,
                set.name.c_str(), one.name.c_str(), nanoseconds, set.megabytes / one.best);
        else
            std::printf(" %.1f (%.0f) |", nanoseconds, set.megabytes / one.best);
    }
    if (!json) std::printf(" %.2f |\n", best / contenders[0].best);
    std::fflush(stdout);
}

void bulk(int rounds, bool json) {
    struct Size {
        const char *name;
        size_t count;
    };
    for (Size size : {Size{"32 KB", 4096}, Size{"1 MB", 131072}, Size{"64 MB", 8388608}}) {
        std::vector<double> values(size.count, 1.5), back(size.count, 2.5);
        double best[3] = {1e99, 1e99, 1e99};
        size_t bytes = size.count * 8, repeats = (size_t{8} << 20) / bytes + 1;
        for (int round = 0; round < rounds / 8 + 3; round++) {
            double times[3] = {
                seconds([&] {
                    for (size_t i = 0; i < repeats; i++) {
                        std::memcpy(back.data(), values.data(), bytes);
                        asm volatile("" ::: "memory");
                    }
                }),
                seconds([&] {
                    for (size_t i = 0; i < repeats; i++)
                        mn_encode_f64_be(back.data(), values.data(), size.count);
                }),
                seconds([&] {
                    for (size_t i = 0; i < repeats; i++)
                        mn_decode_f64_be(values.data(), back.data(), size.count);
                }),
            };
            for (int index = 0; index < 3; index++)
                if (times[index] < best[index]) best[index] = times[index];
        }
        double scale = static_cast<double>(bytes * repeats) / 1e9;
        if (json)
            std::printf("{\"work\": \"bulk\", \"data\": \"%s\", \"memcpy\": %.2f, \"encode\": %.2f, "
                        "\"decode\": %.2f}\n",
                        size.name, scale / best[0], scale / best[1], scale / best[2]);
        else
            std::printf("| %s | %.1f | %.1f (%.2f) | %.1f (%.2f) |\n", size.name, scale / best[0],
                        scale / best[1], best[0] / best[1], scale / best[2], best[0] / best[2]);
    }
}

} // namespace

int main(int count, char **arguments) {
    int rounds = 200;
    bool json = false;
    for (int index = 1; index < count; index++) {
        if (std::strcmp(arguments[index], "--json") == 0)
            json = true;
        else
            rounds = std::atoi(arguments[index]);
    }
    std::vector<Dataset> sets = datasets();
    if (!json)
        std::printf("ns a number (MB/s)\n\n| read | ours | fast_float | std::from_chars | strtod | best "
                    "other / ours |\n|---|---|---|---|---|---|\n");
    for (const Dataset &set : sets) {
        check(set);
        compare("read", set,
                {{"ours", reading(read_ours)},
                 {"fast_float", reading(read_fast_float)},
                 {"std::from_chars", reading(read_from_chars)},
                 {"strtod", reading(read_strtod)}},
                rounds, json);
    }
    if (!json)
        std::printf("\n| print | ours | std::to_chars | snprintf %%.17g | best other / ours "
                    "|\n|---|---|---|---|---|\n");
    for (const Dataset &set : sets) {
        compare("print", set,
                {{"ours", printing([](char *out, double value) { return mn_write_f64(out, value); })},
                 {"std::to_chars",
                  printing([](char *out, double value) { return std::to_chars(out, out + 64, value).ptr; })},
                 {"snprintf", printing([](char *out, double value) {
                      return out + std::snprintf(out, 64, "%.17g", value);
                  })}},
                rounds, json);
    }
    if (!json)
        std::printf(
            "\n| GB/s | memcpy | encode big-endian (of memcpy) | decode (of memcpy) |\n|---|---|---|---|\n");
    bulk(rounds, json);
    return sink == 42;
}
