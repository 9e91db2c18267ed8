/* A load over WebSocket, the same for every server: one thread, small binary messages, epoll.
 *
 *     websocket PORT PATH echo CONNECTIONS SECONDS MESSAGE
 *     websocket PORT PATH fan SUBSCRIBERS SECONDS PUBLISH [SUBSCRIBE]
 *
 * `echo`: each connection sends the message again when a message has come back. `fan`: each subscriber sends
 * SUBSCRIBE, if there is one, and awaits an answer; then one more connection sends PUBLISH again when all
 * subscribers have got what it caused. Prints the messages that came in a second. Messages are shorter than
 * 126 bytes; \r and \n in them are written with a backslash. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { CONNECTIONS_MAX = 20000, EVENTS = 512, SMALL_MAX = 125, READ_BYTES = 1 << 16 };

/* A connection: what is missing of the frame that comes, and the part of its header that has come. */
struct link {
    int fd, header_bytes;
    unsigned char header[4];
    size_t missing;
};

static struct link links[CONNECTIONS_MAX + 1];

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

static void open_link(struct link *link, int port, const char *path)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    char text[1024];
    int on = 1, len;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    link->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, sizeof address))
        fail("connect");
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    len = snprintf(text, sizeof text,
                   "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                   path, port);
    if (send(link->fd, text, len, 0) != len)
        fail("send");
    /* A byte at a time, so that nothing of the first frame is read. */
    for (len = 0; len < 4 || memcmp(text + len - 4, "\r\n\r\n", 4); len++)
        if (len == sizeof text || recv(link->fd, text + len, 1, 0) != 1)
            fail("the server does not speak WebSocket");
    if (memcmp(text, "HTTP/1.1 101", 12))
        fail("the server does not speak WebSocket");
}

static void send_message(struct link *link, const char *message)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char frame[6 + SMALL_MAX] = {0x82};
    int len = strlen(message);

    frame[1] = 0x80 | len;
    memcpy(frame + 2, mask, 4);
    for (int at = 0; at < len; at++)
        frame[6 + at] = message[at] ^ mask[at % 4];
    if (send(link->fd, frame, 6 + len, 0) != 6 + len)
        fail("send");
}

/* Reads once, and counts the frames that have come to their end. */
static long frames_read(struct link *link)
{
    static unsigned char bytes[READ_BYTES];
    ssize_t len = recv(link->fd, bytes, sizeof bytes, 0);
    long frames = 0;

    if (len <= 0)
        fail("recv");
    for (ssize_t at = 0; at < len;) {
        if (link->missing) {
            size_t step = (size_t)(len - at) < link->missing ? (size_t)(len - at) : link->missing;
            at += step;
            link->missing -= step;
            frames += !link->missing;
            continue;
        }
        link->header[link->header_bytes++] = bytes[at++];
        int short_len = link->header_bytes >= 2 ? link->header[1] & 0x7f : -1;
        if (short_len == 127)
            exit(2);
        if (link->header_bytes == 2 && short_len < 126)
            link->missing = short_len;
        else if (link->header_bytes == 4)
            link->missing = link->header[2] << 8 | link->header[3];
        else
            continue;
        link->header_bytes = 0;
        frames += !link->missing;
    }
    return frames;
}

/* Replaces \r and \n by what they stand for. */
static char *unescaped(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++)
        *to++ = *from != '\\' ? *from : *++from == 'r' ? '\r' : '\n';
    *to = 0;
    if (strlen(text) > SMALL_MAX)
        exit(2);
    return text;
}

int main(int count, char **words)
{
    if (count < 7)
        return 2;
    int port = atoi(words[1]), is_fan = !strcmp(words[3], "fan"), connections = atoi(words[4]);
    double limit = atof(words[5]), began, now;
    char *message = unescaped(words[6]), *subscribe = count > 7 ? unescaped(words[7]) : NULL;
    struct rlimit files = {CONNECTIONS_MAX + 100, CONNECTIONS_MAX + 100};
    struct epoll_event events[EVENTS];
    int set = epoll_create1(0);
    long total = 0, left = connections;

    if (connections < 1 || connections > CONNECTIONS_MAX || set < 0)
        return 2;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int number = 0; number < connections; number++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &links[number]};
        open_link(&links[number], port, words[2]);
        if (subscribe) {
            send_message(&links[number], subscribe);
            while (!frames_read(&links[number]))
                ;
        }
        if (epoll_ctl(set, EPOLL_CTL_ADD, links[number].fd, &event))
            fail("epoll_ctl");
    }
    if (is_fan)
        open_link(&links[connections], port, words[2]);
    began = seconds_now();
    for (int number = 0; number < (is_fan ? 1 : connections); number++)
        send_message(&links[is_fan ? connections : number], message);
    while ((now = seconds_now()) - began < limit) {
        int ready = epoll_wait(set, events, EVENTS, 1000);
        for (int number = 0; number < ready; number++) {
            struct link *link = events[number].data.ptr;
            long frames = frames_read(link);
            total += frames;
            left -= frames;
            if (!is_fan && frames)
                send_message(link, message);
        }
        if (is_fan && left <= 0) {
            left += connections;
            send_message(&links[connections], message);
        }
    }
    printf("%.0f\n", total / (now - began));
    return 0;
}
