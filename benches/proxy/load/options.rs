//! The options: the requests, their rate and the duration.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// The command line.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The proxy; without it requests go to the origin.
    #[arg(long)]
    pub(crate) via: Option<SocketAddr>,
    /// Reach the proxy by SOCKS5, and send it what an origin would get.
    #[arg(long)]
    pub(crate) socks5: bool,
    /// Use HTTPS: CONNECT and TLS.
    #[arg(long)]
    pub(crate) https: bool,
    /// Use HTTP/2 inside TLS.
    #[arg(long)]
    pub(crate) http2: bool,
    /// Ask the server at `via` about the requests, by Envoy's ext_authz over gRPC.
    #[arg(long)]
    pub(crate) grpc: bool,
    /// The origins' name; `{}` becomes a number.
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// The origins' port.
    #[arg(long)]
    pub(crate) port: u16,
    /// The number of origins, used in turn.
    #[arg(long, default_value_t = 1)]
    pub(crate) hosts: usize,
    /// The number of the first origin.
    #[arg(long, default_value_t = 0)]
    pub(crate) first_host: usize,
    #[arg(long, default_value = "/1k")]
    pub(crate) path: String,
    /// The status that every response must have.
    #[arg(long, default_value_t = 200)]
    pub(crate) expect: u16,
    #[arg(long, default_value_t = 32)]
    pub(crate) connections: usize,
    /// Concurrent requests on one HTTP/2 connection.
    #[arg(long, default_value_t = 1)]
    pub(crate) streams: usize,
    /// The number of requests on one connection; 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) renew_after: usize,
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Requests before the measurement, on each connection.
    #[arg(long, default_value_t = 20)]
    pub(crate) warm_up: usize,
    /// The most connections that are opened and warm up at the same time; 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) warming: usize,
    /// The most requests in the measurement; 0: only the time counts.
    #[arg(long, default_value_t = 0)]
    pub(crate) requests: usize,
    /// Requests per second over all connections; 0: as many as possible.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) rate: f64,
    #[arg(long, default_value = "BenchBot/1.0")]
    pub(crate) user_agent: String,
}

impl Options {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Returns how many connections may warm up at the same time.
    pub(crate) fn warming(&self) -> usize {
        if self.warming > 0 { self.warming } else { self.connections }
    }

    /// Returns the pause between two requests of one connection at a fixed rate.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let connections = u32::try_from(self.connections).unwrap_or(u32::MAX);
        (self.rate > 0.0).then(|| Duration::from_secs_f64(f64::from(connections) / self.rate))
    }

    /// Returns the authority of origin `number`, counted over all connections.
    pub(crate) fn authority(&self, number: usize) -> String {
        let number = self.first_host + number % self.hosts;
        let host = self.host.replace("{}", &number.to_string());
        format!("{host}:{}", self.port)
    }
}
