//! The organisation's crawlers and its own rules: identification, signatures, `[[rule]]`, and permissions that are revoked.

mod client_certificates;
mod identify;
mod revoked;
mod rules;
mod signing;
