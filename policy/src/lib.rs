//! Decides what a crawler may fetch.
#![warn(missing_docs)]
