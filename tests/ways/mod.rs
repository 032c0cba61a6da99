//! The ways out of the proxy: from which address, by whom, and by which protocol.

mod chains;
mod ftp;
mod ftp_long;
mod parent;
mod programs;
mod source;
