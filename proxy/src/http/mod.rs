//! HTTP as it is spelt on the wire, for crawlers and origins alike; nothing of policy in it.

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
