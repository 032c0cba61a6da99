//! HTTP on the wire, for clients and origins alike, without I/O of its own.
//!
//! [`http1`] reads and writes heads and bodies on any byte stream. A message that two readers could understand differently is
//! refused; faults of a response that RFC 9112 lets a proxy repair are repaired and counted. The other modules are views of
//! a head: its target, its fields, the encodings of its content, and whether it turns its request away.
//!
//! This crate knows nothing of the proxy, nor of the pages that may be fetched. Begin reading at [`http1`].

pub mod accept;
pub mod content_coding;
pub mod edge_refusal;
pub mod field_pairs;
pub mod ftp_path;
pub mod http1;
pub mod page;
pub mod proxy_status;
pub mod received;
pub mod request_target;
