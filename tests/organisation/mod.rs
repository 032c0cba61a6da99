//! The organisation's crawlers and its own rules: identification, signatures, `[[rule]]`, permissions that are revoked, and sites
//! that turn crawlers away.

mod agents;
mod agents_in_a_crowd;
mod budgets;
mod client_certificates;
mod edge;
mod identify;
mod payment;
mod purposes;
mod response_size;
mod revoked;
mod rules;
pub mod signing;
mod subresources;
