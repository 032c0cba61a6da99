//! HTTP on the wire, the same for crawlers and origins. Nothing here decides what may be fetched.

pub(crate) mod client;
pub(crate) mod connect_stream;
pub(crate) mod content_coding;
pub(crate) mod field_pairs;
pub(crate) mod flushes;
pub(crate) mod ftp_path;
pub(crate) mod http1;
pub(crate) mod proxy_status;
pub(crate) mod received;
pub(crate) mod request_target;
pub(crate) mod transport;
