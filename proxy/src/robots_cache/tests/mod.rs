mod askers;
mod flood;
mod handle;
mod http;
mod http2;
mod parsing;
mod room;
mod server;
pub(crate) mod unique;
