//! RESP2 and RESP3: requests, replies, and a decoder of replies.
#![forbid(unsafe_code)]
