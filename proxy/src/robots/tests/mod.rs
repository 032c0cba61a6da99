mod flood;
mod handle;
mod http;
mod http2;
mod room;
mod server;
pub(crate) mod unique;
