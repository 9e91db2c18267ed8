//! The safe Rust face of the number core: parsing and printing of numbers, exactly.
