mod handle;
mod http;
mod server;
