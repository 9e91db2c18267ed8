/* A load of SETs that takes little of a processor: one thread, and each of its connections sends the next
 * requests when the replies to the last ones have come.
 *
 *     closed_loop PORT|SOCKET CONNECTIONS DEPTH SECONDS
 *
 * Prints the requests that were answered in a second. DEPTH is how many go out together. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

enum { KEYS = 100000, EVENTS = 256, REQUEST_BYTES = 128, CONNECTIONS_MAX = 10000, DEPTH_MAX = 1000 };

static const char REPLY[] = "+OK\r\n";
static const int REPLY_BYTES = sizeof REPLY - 1;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static int connect_to(const char *place)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons(atoi(place))};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    int is_local = strchr(place, '/') != NULL, on = 1;
    int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    strncpy(local.sun_path, place, sizeof local.sun_path - 1);
    if (fd < 0 || (is_local ? connect(fd, (struct sockaddr *)&local, sizeof local)
                            : connect(fd, (struct sockaddr *)&tcp, sizeof tcp)))
        fail(place);
    if (!is_local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void send_requests(int fd, int depth)
{
    static char requests[DEPTH_MAX * REQUEST_BYTES];
    static unsigned random = 1;
    int bytes = 0;

    for (int number = 0; number < depth; number++) {
        random = random * 1103515245 + 12345;
        bytes += sprintf(requests + bytes, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012u\r\n$3\r\nxxx\r\n",
                         (random >> 8) % KEYS);
    }
    if (send(fd, requests, bytes, MSG_NOSIGNAL) != bytes)
        fail("send");
}

int main(int count, char **words)
{
    static int awaited[CONNECTIONS_MAX];
    struct epoll_event events[EVENTS];
    int poll = epoll_create1(0);

    if (count != 5)
        return fprintf(stderr, "closed_loop PORT|SOCKET CONNECTIONS DEPTH SECONDS\n"), 2;
    int connections = atoi(words[2]), depth = atoi(words[3]);
    if (connections < 1 || connections > CONNECTIONS_MAX - 100 || depth < 1 || depth > DEPTH_MAX)
        return fprintf(stderr, "closed_loop: too many or too few\n"), 2;
    for (int number = 0; number < connections; number++) {
        int fd = connect_to(words[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
        awaited[fd] = depth * REPLY_BYTES;
        send_requests(fd, depth);
    }
    double began = seconds_now(), until = began + atof(words[4]);
    long answered = 0;
    while (seconds_now() < until) {
        int found = epoll_wait(poll, events, EVENTS, 1000);
        for (int number = 0; number < found; number++) {
            char replies[DEPTH_MAX * 5];
            int fd = events[number].data.fd;
            int bytes = recv(fd, replies, awaited[fd], 0);
            if (bytes <= 0 || memchr(replies, '-', bytes))
                fail("a reply");
            awaited[fd] -= bytes;
            if (awaited[fd] == 0) {
                answered += depth;
                awaited[fd] = depth * REPLY_BYTES;
                send_requests(fd, depth);
            }
        }
    }
    printf("%.0f\n", answered / (seconds_now() - began));
    return 0;
}
