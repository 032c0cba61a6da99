//! Evidence: the decision log is a chain that shows what was done to it, and any decision can be shown to anyone, years later.

mod chain;
mod export;
mod forged;
mod keeping;
mod tampering;
mod week;
