//! The admin listener: access, health, metrics, the API, the page, and the dashboards built on them.

mod access;
mod api;
mod attributes;
mod changes;
mod dashboards;
mod decision_export;
mod decisions;
mod health;
mod marked_lines;
mod metrics;
mod overview;
mod page;
pub mod reasons;
mod replay;
mod roles;
mod traces;
