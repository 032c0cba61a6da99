//! Upstream connections: source addresses, parent proxies, and FTP.

mod chains;
mod ftp;
mod ftp_long;
pub mod parent;
pub mod programs;
mod source;
