//! Sockets: listeners, connections and the two drivers (io_uring, epoll).
