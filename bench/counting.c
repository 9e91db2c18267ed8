/* A load that notices what is lost: each connection counts a key of its own up, one INCR at a time, and
 * checks every reply. One thread, which takes little of a processor.
 *
 *     counting PORT CONNECTIONS RATE SECONDS
 *
 * RATE is the requests a second of all connections together; 0 is as many as get replies. SIGTERM ends it
 * before its time, when all replies have come. Prints how many were answered, connections that were lost and
 * replies that were wrong; then, for each 10 ms in which a request ended that had waited for more than a
 * millisecond, the time (monotonic clock, seconds) and the longest wait in ms. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 512, CONNECTIONS_MAX = 10000, SLOTS_PER_S = 100, SLOTS_MAX = 600 * SLOTS_PER_S, REST_S = 30 };

static struct {
    int fd, filled;
    long count;
    double asked;
    char reply[32];
} all[CONNECTIONS_MAX];

static float longest[SLOTS_MAX];
static long answered, lost, wrong;
static int open_count, waiting;
static double began;
static volatile sig_atomic_t is_ended;

static void end(int signal)
{
    (void)signal;
    is_ended = 1;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int connect_to(const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        perror(port);
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void lose(int number)
{
    lost++;
    open_count--;
    waiting -= all[number].asked > 0;
    all[number].asked = 0;
    close(all[number].fd);
    all[number].fd = -1;
}

static void ask(int number)
{
    char request[64];
    int bytes = sprintf(request, "*2\r\n$4\r\nINCR\r\n$11\r\ncount:%05d\r\n", number);

    all[number].asked = seconds_now();
    all[number].filled = 0;
    waiting++;
    if (send(all[number].fd, request, bytes, MSG_NOSIGNAL) != bytes)
        lose(number);
}

/* Takes what has come. Whether that ends the reply. */
static int take(int number)
{
    char expected[32];
    int room = sizeof all[number].reply - all[number].filled;
    int bytes = recv(all[number].fd, all[number].reply + all[number].filled, room, 0);

    if (bytes <= 0)
        return lose(number), 0;
    all[number].filled += bytes;
    if (all[number].reply[all[number].filled - 1] != '\n')
        return 0;
    int length = sprintf(expected, ":%ld\r\n", all[number].count + 1);
    if (all[number].filled != length || memcmp(expected, all[number].reply, length)) {
        wrong++;
        fprintf(stderr, "connection %d: %.*s after %ld\n", number, all[number].filled, all[number].reply,
                all[number].count);
    }
    double now = seconds_now(), wait_ms = (now - all[number].asked) * 1e3;
    int slot = (now - began) * SLOTS_PER_S;
    if (slot < SLOTS_MAX && wait_ms > longest[slot])
        longest[slot] = wait_ms;
    all[number].count++;
    all[number].asked = 0;
    waiting--;
    answered++;
    return 1;
}

int main(int count, char **words)
{
    struct epoll_event events[EVENTS];
    int poll = epoll_create1(0), next = 0;

    if (count != 5 || atoi(words[2]) < 1 || atoi(words[2]) > CONNECTIONS_MAX)
        return fprintf(stderr, "counting PORT CONNECTIONS RATE SECONDS\n"), 2;
    int connections = atoi(words[2]);
    double rate = atof(words[3]);
    for (int number = 0; number < connections; number++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
        all[number].fd = connect_to(words[1]);
        epoll_ctl(poll, EPOLL_CTL_ADD, all[number].fd, &event);
    }
    open_count = connections;
    signal(SIGTERM, end);
    began = seconds_now();
    double due = began, until = began + atof(words[4]);
    for (int number = 0; number < connections && rate == 0; number++)
        ask(number);
    while (seconds_now() < until + (waiting ? REST_S : 0) && open_count > 0) {
        double now = seconds_now();
        if (is_ended && now < until)
            until = now;
        for (int tried = 0; rate > 0 && due < now && now < until && tried < connections; tried++) {
            next = (next + 1) % connections;
            if (all[next].fd >= 0 && all[next].asked == 0) {
                ask(next);
                due += 1 / rate;
            }
        }
        if (due < now)
            due = now; /* A client that waits asks for nothing more meanwhile. */
        int found = epoll_wait(poll, events, EVENTS, 1);
        for (int at = 0; at < found; at++) {
            int number = events[at].data.u32;
            if (all[number].fd >= 0 && take(number) && rate == 0 && now < until)
                ask(number);
        }
    }
    printf("%ld answered %ld lost %ld wrong %d unanswered\n", answered, lost, wrong, waiting);
    for (int slot = 0; slot < SLOTS_MAX; slot++)
        if (longest[slot] > 1)
            printf("%.2f %.2f\n", began + (double)slot / SLOTS_PER_S, longest[slot]);
    return 0;
}
