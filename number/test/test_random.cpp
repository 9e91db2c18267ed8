// Random and exhaustive checks against independent oracles: strtod and strtof for reading, and the standard
// library's std::to_chars (the Ryu algorithm) for shortest digits. Prints its seed; the same seed gives the
// same run.
//
//     test_random f64 COUNT [SEED] [--progress]     random bit patterns, printed and read back, both ways
//     checked test_random text COUNT [SEED] [--progress]    random decimal texts of 1 to 800 digits
//     test_random f32 FIRST LAST [STEP] [--progress]   every float with bits in [FIRST, LAST), or each STEPth
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define MANTISSA_NUMBER_IMPLEMENTATION
#include "mantissa_number.h"

namespace {

struct Random {
    uint64_t state;
    uint64_t next() {
        // splitmix64 (Steele, Lea, Flood 2014)
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    unsigned below(unsigned bound) { return static_cast<unsigned>(next() % bound); }
};

unsigned long failures = 0;

void fail(const char *what, const char *text, unsigned long long bits) {
    if (failures++ < 20) std::fprintf(stderr, "FAILED: %s: %.900s (bits %llx)\n", what, text, bits);
}

class Progress {
  public:
    Progress(bool wanted, uint64_t total)
        : wanted_(wanted), total_(total), start_(std::chrono::steady_clock::now()) {}
    void at(uint64_t done) {
        if (!wanted_ || (done & 0xffffff) != 0 || done == 0) return;
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
        std::fprintf(stderr, "%.1f %% (%llu of %llu), %.0f s, %.0f s left, %lu failures\n",
                     100.0 * done / total_, static_cast<unsigned long long>(done),
                     static_cast<unsigned long long>(total_), seconds, seconds / done * (total_ - done),
                     failures);
    }

  private:
    bool wanted_;
    uint64_t total_;
    std::chrono::steady_clock::time_point start_;
};

// The digits of a printed number as an integer, and the exponent of the last; leading and trailing zeros left
// out.
void parts(const char *first, const char *last, uint64_t *digits, int *exponent) {
    *digits = 0;
    *exponent = 0;
    bool after_point = false;
    for (; first != last && *first != 'e'; ++first) {
        if (*first == '-') continue;
        if (*first == '.') {
            after_point = true;
            continue;
        }
        *digits = *digits * 10 + static_cast<uint64_t>(*first - '0');
        *exponent -= after_point;
    }
    if (first != last) *exponent += std::atoi(std::string(first + 1, last).c_str());
    while (*digits != 0 && *digits % 10 == 0) *digits /= 10, ++*exponent;
}

template <class Float, class Bits> void check_bits(Bits bits) {
    Float value, back = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) return;
    char ours[64], theirs[64];
    char *ours_end,
        *theirs_end = std::to_chars(theirs, theirs + 63, value, std::chars_format::scientific).ptr;
    mn_result result;
    *theirs_end = 0;
    if (sizeof(Float) == 8) {
        ours_end = mn_write_f64(ours, static_cast<double>(value));
        double read;
        result = mn_parse_f64(ours, ours_end, &read);
        back = static_cast<Float>(read);
    } else {
        ours_end = mn_write_f32(ours, static_cast<float>(value));
        float read;
        result = mn_parse_f32(ours, ours_end, &read);
        back = static_cast<Float>(read);
    }
    *ours_end = 0;
    if (std::memcmp(&back, &value, sizeof value) != 0 || result.end != ours_end || result.status != MN_OK)
        fail("does not read back", ours, bits);
    if (std::isinf(value)) return;
    uint64_t our_digits, their_digits;
    int our_exponent, their_exponent;
    parts(ours, ours_end, &our_digits, &our_exponent);
    parts(theirs, theirs_end, &their_digits, &their_exponent);
    if (our_digits != their_digits || (our_digits != 0 && our_exponent != their_exponent))
        fail("not the shortest, or not the closest", ours, bits);
}

void check_text(const char *text, const char *end) {
    double ours = 0, theirs = std::strtod(text, nullptr);
    float ours32 = 0, theirs32 = std::strtof(text, nullptr);
    if (mn_parse_f64(text, end, &ours).end != end || std::memcmp(&ours, &theirs, 8) != 0)
        fail("f64 of", text, 0);
    if (mn_parse_f32(text, end, &ours32).end != end || std::memcmp(&ours32, &theirs32, 4) != 0)
        fail("f32 of", text, 0);
}

// A random text: mostly short, some of hundreds of digits, with and without point, exponent and sign.
char *random_text(Random &random, char *out) {
    unsigned shape = random.below(16);
    unsigned count = shape == 0  ? 1 + random.below(800)
                     : shape < 4 ? 1 + random.below(60)
                                 : 1 + random.below(20);
    unsigned point = random.below(3) == 0 ? ~0u : random.below(count + 1);
    if (random.below(2)) *out++ = '-';
    for (unsigned index = 0; index < count; index++) {
        if (index == point) *out++ = '.';
        *out++ = static_cast<char>('0' + random.below(10));
    }
    if (random.below(3)) {
        int range = random.below(4) == 0 ? 400 : 40;
        out += std::sprintf(out, "e%d", static_cast<int>(random.below(2 * range)) - range);
    }
    *out = 0;
    return out;
}

// Every power of two and of ten with its neighbours, and the integers around 2^53 and 2^64, printed and read.
void check_edges() {
    char text[64];
    auto around = [](uint64_t bits) {
        for (int delta = -3; delta <= 3; delta++) check_bits<double>(bits + static_cast<uint64_t>(delta));
    };
    for (uint64_t field = 1; field < 2047; field++) around(field << 52);
    for (int exponent = -345; exponent <= 310; exponent++) {
        for (int digit = 1; digit < 10; digit++) {
            check_text(text, text + std::sprintf(text, "%de%d", digit, exponent));
            double value = std::strtod(text, nullptr);
            if (value > 1e-320 && value < 1e308) around(mn__f64_bits(value));
        }
    }
    for (uint64_t base : {uint64_t{1} << 53, uint64_t{1} << 54}) {
        for (uint64_t integer = base - 1500; integer < base + 1500; integer++) {
            check_text(text, text + std::sprintf(text, "%llu", static_cast<unsigned long long>(integer)));
            check_bits<double>(mn__f64_bits(static_cast<double>(integer)));
        }
    }
    for (int last = 0; last < 4000; last++)
        check_text(text, text + std::sprintf(text, "1844674407370955%04d", last)); /* 2^64 is ...1616 */
}

} // namespace

int main(int count, char **arguments) {
    bool progress = count > 1 && std::strcmp(arguments[count - 1], "--progress") == 0;
    count -= progress;
    std::string what = count > 1 ? arguments[1] : "";
    if (count < 3 || (what == "f32" && count < 4)) {
        std::fprintf(
            stderr,
            "test_random f64|text COUNT [SEED] [--progress], or f32 FIRST LAST [STEP] [--progress]\n");
        return 2;
    }
    uint64_t total = std::strtoull(arguments[2], nullptr, 0);
    uint64_t other = count > 3 ? std::strtoull(arguments[3], nullptr, 0) : 20260601;
    Random random = {other};
    if (what == "f32") {
        uint64_t step = count > 4 ? std::strtoull(arguments[4], nullptr, 0) : 1, done = 0;
        Progress shown(progress, (other - total) / step);
        for (uint64_t bits = total; bits < other; bits += step) {
            check_bits<float>(static_cast<uint32_t>(bits));
            if ((bits & 0x3f) == 0) {
                char text[64];
                *mn_write_f32(text, mn__f32_of(static_cast<uint32_t>(bits))) = 0;
                if (text[0] != 'n' && text[1] != 'n') check_text(text, text + std::strlen(text));
            }
            shown.at(++done);
        }
        std::printf("f32 %#llx to %#llx by %llu: %lu failures\n", (unsigned long long)total,
                    (unsigned long long)other, (unsigned long long)step, failures);
        return failures != 0;
    }
    Progress shown(progress, total);
    check_edges();
    for (uint64_t index = 0; index < total; index++) {
        if (what == "f64") {
            uint64_t bits = random.next();
            check_bits<double>(bits);
            if ((index & 3) == 0) {
                // Short decimals, which have their own way.
                static const double scales[] = {1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7};
                double value = static_cast<double>(bits >> (4 + bits % 60)) / scales[random.below(8)];
                check_bits<double>(mn__f64_bits(value));
            }
        } else {
            char text[1024];
            char *end = random_text(random, text);
            check_text(text, end);
        }
        shown.at(index + 1);
    }
    std::printf("%s: %llu cases, seed %llu: %lu failures\n", what.c_str(), (unsigned long long)total,
                (unsigned long long)other, failures);
    return failures != 0;
}
