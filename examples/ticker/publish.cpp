// The producer: prices of some symbols go to the server in batches, as packed numbers, which nobody formats.
//
//     publish SOCKET [TICKS]
//
// Each symbol has two lists, prices:SYMBOL and times:SYMBOL (microseconds since 1970, ascending).
#include <hiredis/hiredis.h>
#include <mantissa/packed.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

const char *const symbols[] = {"ACME", "GLOBEX", "HOOLI", "INITECH", "STARK", "UMBRELLA", "WAYNE", "WONKA"};
constexpr size_t symbol_count = sizeof symbols / sizeof *symbols;
constexpr size_t batch = 500; // ticks of each symbol

using std::chrono::steady_clock;

int64_t now_us() {
    auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count();
}

struct Series {
    double price = 100, sum = 0;
    double prices[batch];
    int64_t times[batch];
};

class Publisher {
  public:
    explicit Publisher(const char *socket) : context(redisConnectUnix(socket)) {
        if (context == nullptr || context->err) throw std::runtime_error("no server at the socket");
    }
    ~Publisher() { redisFree(context); }

    long long publish(const char *message) {
        redisAppendCommand(context, "PUBLISH ticks %s", message);
        return integer();
    }

    // All symbols in one go: the replies are read behind the last command.
    void send(std::vector<Series> &all, size_t ticks) {
        for (size_t i = 0; i < symbol_count; i++) {
            append("prices:", symbols[i], mantissaPackDoubles(packed, all[i].prices, ticks));
            append("times:", symbols[i], mantissaPackIntegers(packed, all[i].times, ticks));
        }
        redisAppendCommand(context, "PUBLISH ticks more");
        for (size_t i = 0; i < 2 * symbol_count + 1; i++) integer();
    }

    unsigned long long bytes = 0;

  private:
    void append(const char *prefix, const char *symbol, size_t size) {
        bytes += size;
        redisAppendCommand(context, "MANTISSA.UNPACK RPUSH %s%s %b", prefix, symbol, packed, size);
    }

    long long integer() {
        void *reply;
        if (redisGetReply(context, &reply) != REDIS_OK) throw std::runtime_error(context->errstr);
        redisReply *answer = static_cast<redisReply *>(reply);
        if (answer->type == REDIS_REPLY_ERROR) throw std::runtime_error(answer->str);
        long long value = answer->integer;
        freeReplyObject(reply);
        return value;
    }

    redisContext *context;
    char packed[MANTISSA_PACK_VARINT_SIZE(batch)];
};

int run(const char *socket, size_t ticks) {
    Publisher publisher(socket);
    // The reader subscribes before it reads.
    for (int tries = 0; publisher.publish("begin") == 0; tries++) {
        if (tries == 3000) throw std::runtime_error("nobody reads");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::vector<Series> all(symbol_count);
    std::mt19937_64 random(1);
    std::uniform_int_distribution<int> cents(-5, 5);
    size_t each = ticks / symbol_count;
    auto start = steady_clock::now();
    for (size_t done = 0; done < each;) {
        size_t part = each - done < batch ? each - done : batch;
        for (Series &series : all) {
            for (size_t i = 0; i < part; i++) {
                series.price = std::max(0.01, series.price + cents(random) / 100.0);
                series.sum += series.prices[i] = series.price;
                series.times[i] = now_us();
            }
        }
        publisher.send(all, part);
        done += part;
    }
    double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
    publisher.publish("end");

    double sum = 0;
    for (const Series &series : all) sum += series.sum;
    uint64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    double total = static_cast<double>(each * symbol_count);
    std::printf("published: %.0f ticks, %.0f/s, %.1f bytes a tick, checksum %016" PRIx64 "\n", total, total / seconds,
                static_cast<double>(publisher.bytes) / total, bits);
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) return std::fprintf(stderr, "publish SOCKET [TICKS]\n"), 2;
    try {
        return run(argv[1], argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000000);
    } catch (const std::exception &failed) {
        std::fprintf(stderr, "publish: %s\n", failed.what());
        return 1;
    }
}
