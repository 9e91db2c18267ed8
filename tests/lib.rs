//! End-to-end tests of the workspace; the tests live beside this file.
#![forbid(unsafe_code)]
