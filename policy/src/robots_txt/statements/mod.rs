//! The statements of a file as they are kept.

pub(crate) mod event;
pub(crate) mod line_numbers;
pub(crate) mod stored;
pub(crate) mod writer;
