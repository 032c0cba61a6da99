//! Upstream connections: source addresses, parent proxies, and FTP.

mod chains;
mod ftp;
mod ftp_long;
mod parent;
mod programs;
mod source;
