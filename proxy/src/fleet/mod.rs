//! The fleet: what several nodes share, and the engine that they share it in.

pub mod alone;
pub mod engine;
pub mod memory;
pub mod redis;
mod rest;
