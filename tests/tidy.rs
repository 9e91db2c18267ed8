//! Measures the habits of the code base that can be measured.
