//! The `mantissa` program: its subcommands.

fn main() {}
