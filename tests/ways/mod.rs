//! The ways out of the proxy: from which address, by whom, and by which protocol.

mod ftp;
mod parent;
mod programs;
mod source;
