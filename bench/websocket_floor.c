/* What the system's sockets cost alone: a server that looks at nothing it is sent. One thread, epoll.
 *
 *     websocket_floor
 *
 * Prints its port. The first thing that a connection sends is taken for a handshake; whatever comes then is
 * one message: it is answered with a frame of 14 bytes, and at /fan such a frame goes to all that have sent
 * "subscribe". So no server with one read and one write for a message is much faster. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A frame of "subscribe", which none of "hello, world" is as long as. */
enum { SUBSCRIPTION_BYTES = 6 + 9 };
enum { CONNECTIONS_MAX = 20000, EVENTS = 512, READ_BYTES = 1 << 16, BACKLOG = 4096 };

enum state { CLOSED, NEW, ECHO, FAN, SUBSCRIBED };

static const char ACCEPTED[] = "HTTP/1.1 101 Switching Protocols\r\n"
                               "Upgrade: websocket\r\n"
                               "Connection: Upgrade\r\n"
                               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
static const unsigned char FRAME[] = "\x82\x0e"
                                     "fourteen bytes";

static enum state states[CONNECTIONS_MAX];
static int subscribers[CONNECTIONS_MAX], subscriber_count;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Sends a little, or gives the connection up. */
static void say(int socket, const void *bytes, size_t len)
{
    if (send(socket, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        states[socket] = CLOSED;
}

static void end(int socket)
{
    int at;
    for (at = 0; at < subscriber_count; at++)
        if (subscribers[at] == socket)
            subscribers[at--] = subscribers[--subscriber_count];
    states[socket] = CLOSED;
    close(socket);
}

static void greet(int socket, const char *request)
{
    states[socket] = strncmp(request, "GET /fan", 8) == 0 ? FAN : ECHO;
    say(socket, ACCEPTED, sizeof ACCEPTED - 1);
}

static void serve(int socket)
{
    static char bytes[READ_BYTES + 1];
    ssize_t len = recv(socket, bytes, READ_BYTES, 0);
    int at;

    if (len <= 0) {
        end(socket);
        return;
    }
    bytes[len] = 0;
    switch (states[socket]) {
    case NEW:
        greet(socket, bytes);
        break;
    case FAN:
        if (len == SUBSCRIPTION_BYTES) {
            states[socket] = SUBSCRIBED;
            subscribers[subscriber_count++] = socket;
            say(socket, FRAME, sizeof FRAME - 1);
            break;
        }
        for (at = 0; at < subscriber_count; at++)
            say(subscribers[at], FRAME, sizeof FRAME - 1);
        break;
    default:
        say(socket, FRAME, sizeof FRAME - 1);
    }
}

static void welcome(int listener, int poll)
{
    int on = 1, socket = accept(listener, NULL, NULL);
    struct epoll_event event = {.events = EPOLLIN};

    if (socket < 0)
        return;
    if (socket >= CONNECTIONS_MAX) {
        close(socket);
        return;
    }
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    states[socket] = NEW;
    event.data.fd = socket;
    if (epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) < 0)
        fail("epoll_ctl");
}

int main(void)
{
    struct rlimit files = {CONNECTIONS_MAX, CONNECTIONS_MAX};
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), at, count;

    setrlimit(RLIMIT_NOFILE, &files);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    event.data.fd = listener;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, BACKLOG) < 0 || getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) < 0)
        fail("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        count = epoll_wait(poll, events, EVENTS, -1);
        for (at = 0; at < count; at++) {
            if (events[at].data.fd == listener)
                welcome(listener, poll);
            else
                serve(events[at].data.fd);
        }
    }
}
