//! The verdict of wayleave inside your own program: a crawler, or another proxy.
//!
//! A crawler that is written in Rust need not send its requests through a proxy to obey robots.txt. The gate decides as the proxy
//! does, by the same configuration file: which crawler asks, the organisation's `[[rule]]`s, robots.txt, preferences about use,
//! pace and budgets. It writes the same signed log, which `wayleave verify` and `wayleave report` read.
//!
//! # A crawler
//!
//! Lay a [`GateLayer`] around an HTTP client. What is refused never leaves, and its response says why:
//!
//! ```no_run
//! # async fn crawl() -> Result<(), Box<dyn std::error::Error>> {
//! use http_body_util::Empty;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::rt::TokioExecutor;
//! use tower::{ServiceBuilder, ServiceExt};
//! use wayleave_gate::{Gate, GateLayer};
//!
//! let gate = Gate::from_config("config.toml").await?;
//! let news = gate.crawler("news")?;
//! let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
//! let client = ServiceBuilder::new().layer(GateLayer::new(gate.clone(), &news)).service(client);
//!
//! let request = http::Request::get("http://shop.example/").body(Empty::new())?;
//! let response = client.oneshot(request).await?;
//! println!("{} {:?}", response.status(), response.headers().get("proxy-status"));
//! gate.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/crawler.rs` is this as a whole program.
//!
//! # Without a layer
//!
//! [`Gate::admit`] decides about the head of one request. It returns when the request may be sent, so that the pace needs no
//! timers of yours, or a [`Refused`] with the answer that a client of the proxy would get. Show the response to
//! [`Admitted::judge`]: it applies `Retry-After` and quotas to the pace, and withholds content whose use its site refuses.
//!
//! # A proxy on pingora
//!
//! With the feature `pingora`, a `pingora::GateContext` in a proxy's `CTX` has a method for each hook of
//! `pingora_proxy::ProxyHttp` that matters. `examples/forward_proxy.rs` is a forward proxy of a page.
//!
//! # Your duties
//!
//! - Send what was admitted: method, target and `Host` as they are. A redirect, a retry, or a rewritten request is another.
//! - Send it once, and soon: the pace counts from the verdict, or from [`Admitted::sent`].
//! - One gate for each `state.dir`. Programs that share a pace share a `[store]`, as the nodes of a fleet do.
//! - Call [`Gate::close`] before the program ends: decisions are written at most a moment after they are made.
//!
//! The gate resolves no names for you, signs no requests, and does not see where your connection leads: `upstream.deny_addresses`
//! applies to what it can judge by the URL alone, and to its own fetches of robots.txt.
//!
//! # What it must not know
//!
//! This crate knows nothing of listeners, or of connections to origins other than the fetches of robots.txt.
//! Begin reading at [`Gate::admit`].

mod admitted;
mod body;
mod gate;
mod head;
#[cfg(feature = "pingora")]
pub mod pingora;
mod refused;
#[cfg(feature = "tower")]
mod tower;

pub use self::admitted::Admitted;
pub use self::body::{GateBody, GateBodyError};
pub use self::gate::{Client, Gate, GateError};
pub use self::refused::Refused;
#[cfg(feature = "tower")]
pub use self::tower::{GateLayer, GateService};
