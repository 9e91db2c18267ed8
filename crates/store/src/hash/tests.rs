//! Hashes against a model.
