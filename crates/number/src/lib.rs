//! The safe Rust face of the number core: reading and printing numbers, exactly.
//!
//! What it guarantees: reading is correctly rounded for every input, printing is the shortest text that
//! reads back the same, and neither looks at the locale or the rounding mode. Every reader takes the whole
//! input as a byte slice and consumes all of it or answers `None`; no input can make one panic, and none
//! copies.
//!
//! What it costs: reading an integer, or a float of up to nineteen digits, is some ten nanoseconds and
//! touches no heap. The `format_*` functions write into a buffer on the caller's stack; the `write_*`
//! functions append to a vector. Only [`long_double`] may allocate, and only for numbers beyond 19 digits
//! or 128 bits.
//!
//! Floats and bulk encoding are the C header `number/mantissa_number.h`, work on vectors of numbers is
//! `number/mantissa_kernels.h`; the build script compiles them.
//! Integers, varints and Redis's own text forms are native Rust, because they are shorter than a call that
//! cannot be inlined. The vectors in `number/vectors` hold both to the same answers.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`integer`] | decimal integers both ways, in the grammar that Redis accepts |
//! | [`float`] | doubles and floats, shortest printing, fixed decimals |
//! | [`score`] | the text forms that Redis uses for scores, range bounds and coordinates |
//! | [`long_double`] | 80-bit extended arithmetic in software, for INCRBYFLOAT and HINCRBYFLOAT |
//! | [`binary`] | varints, zigzag, and bulk big- and little-endian encoding |
//! | [`vector`] | sums, extremes, products and distances of vectors, bits counted, quantisation |
//! | [`human`] | percentages and sizes for people |

pub mod binary;
mod decimal;
pub mod float;
mod header;
pub mod human;
pub mod integer;
pub mod long_double;
pub mod score;
pub mod vector;

pub use float::{
    FLOAT_TEXT_MAX, FloatText, format_f32, format_f64, parse_f32, parse_f64, print_f64, write_f32, write_f64,
    write_fixed,
};
pub use integer::{
    INTEGER_TEXT_MAX, format_i64, format_u64, integer_text_length, last_eight_digits, leading_digits,
    parse_i64, parse_u64, write_i64, write_u64,
};
pub use long_double::LongDouble;
pub use score::{
    SCORE_TEXT_MAX, format_score, parse_hexadecimal, parse_score, parse_score_bound, write_score,
    write_score_digits,
};
