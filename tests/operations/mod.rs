//! The process and its commands: configuration, start, reload, upgrade, shutdown, and behaviour under load.

mod annotations;
pub mod check;
mod commands;
mod config;
mod config_schema;
mod crowds;
mod drill;
mod include;
pub mod over_time;
mod overload;
mod plan;
mod rehearse;
mod reload;
mod replay;
mod replay_incomplete;
mod replay_mixed;
mod replay_now;
mod report;
mod restart;
mod shutdown;
mod sites;
mod soak;
mod systemd;
mod terminal;
mod upgrade;
