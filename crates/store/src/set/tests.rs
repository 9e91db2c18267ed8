//! Sets against a model.
