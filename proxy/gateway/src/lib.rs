//! Answers gateways: other proxies, which ask whether a client's request is allowed, and then send it themselves.
//!
//! ```text
//!  http, grpc              one request to us asks about one request, or is a notice about it
//!  icap                    or shows us a request, and then its response
//!   ├─ server              decides, and keeps what they share
//!   ├─ envoy               the messages of Envoy's service
//!   ├─ credentials         whose gateway it is
//!   ├─ question            the request that it asks about, as the proxy would have received it
//!   ├─ question_shares     the questions that it, and each client behind it, may have in progress
//!   └─ given_slots         the slots of allowed requests, for notices that may follow
//! ```
//!
//! An organisation that has a proxy keeps it, and its crawlers still obey robots.txt. Every check is the proxy's own: a question
//! becomes the head that the proxy would have read. This crate knows nothing of connections to origins, of bodies, or of the
//! configuration file. Begin reading at [`GatewayServer`].

mod credentials;
mod envoy;
mod given_slots;
mod grpc;
mod http;
mod icap;
mod mistake;
mod question;
mod question_shares;
mod server;

pub use self::icap::serve as serve_icap;
pub use self::question_shares::QuestionLimits;
pub use self::server::GatewayServer;
