//! Evidence: the decision log is a chain in which changes are detected, and any decision can be proved years later.

mod audit;
mod chain;
mod export;
mod forged;
mod keeping;
mod tampering;
mod week;
