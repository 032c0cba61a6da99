//! Holds nothing: the package is its benches.
