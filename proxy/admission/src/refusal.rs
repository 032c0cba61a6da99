//! Refusals that need no decision: the request cannot be read, comes too soon, or fails on its way.

use std::time::Duration;

use wayleave_decision::{Reason, Refusal};
use wayleave_http_wire::http1::HeadError;
use wayleave_pacing::{PaceUnit, TooSoon, TooSoonCause};
use wayleave_robots_txt::Origin;

/// Returns the refusal of a request that comes back to the proxy it went through.
pub fn looped() -> Refusal {
    let details = "Via names this proxy: the request came back to it";
    Refusal::new(Reason::ProxyLoopDetected, details)
}

/// Returns the refusal of a tunnel that comes back to the proxy that opened it.
pub fn looped_tunnel() -> Refusal {
    let details = "this connection is the proxy's own: except its traffic from what the kernel redirects to it";
    closing(Reason::ProxyLoopDetected, details)
}

/// Returns the refusal of a request that may be forwarded, but that could not be recorded.
pub fn unrecorded() -> Refusal {
    let details = "the decision log cannot be written, and log.on_failure is \"refuse\"";
    Refusal {
        retry_after: Some(Duration::from_secs(1)),
        ..Refusal::new(Reason::Unrecorded, details)
    }
}

/// Returns the refusal of a request whose head cannot be read; none if the client has closed.
pub fn head_refusal(error: HeadError) -> Option<Refusal> {
    match error {
        // Between requests a client may close at any time.
        HeadError::Closed => None,
        HeadError::Broken(_) => Some(Refusal::malformed("the request head is cut short")),
        HeadError::Malformed(details) => Some(Refusal::malformed(details)),
        HeadError::TooLarge(details) => Some(closing(Reason::HeadTooLarge, details)),
        HeadError::UnsupportedVersion => {
            let details = "the HTTP version is neither 1.1 nor 1.0";
            Some(closing(Reason::UnsupportedVersion, details))
        }
    }
}

/// Returns the refusal of a request whose head does not arrive.
pub fn head_timeout() -> Refusal {
    let details = "the request head did not arrive in time";
    closing(Reason::HeadTimeout, details)
}

/// Returns the refusal of an uninspected tunnel in which nothing arrives that could be checked.
pub fn tunnel_timeout() -> Refusal {
    let details = "no server name arrived in the tunnel in time";
    closing(Reason::HeadTimeout, details)
}

/// Returns the refusal of a load balancer's connection that does not name its client.
pub fn invalid_proxy_header(mistake: &str) -> Refusal {
    Refusal {
        closes_connection: true,
        ..Refusal::new(
            Reason::ProxyProtocol,
            format!("proxy.proxy_protocol requires a PROXY header from this address: {mistake}"),
        )
    }
}

/// Returns the refusal of a connection that should begin with TLS.
pub fn tls_required() -> Refusal {
    let details = "this listener uses TLS: write https:// in the proxy's URL";
    closing(Reason::TlsRequired, details)
}

/// Returns the refusal of a connection to a listener for connections that the kernel brings.
pub fn not_redirected() -> Refusal {
    let details = "this listener takes connections that the kernel redirects to it, and this one came straight: \
                   clients that can be told about a proxy use another listener";
    closing(Reason::NotRedirected, details)
}

/// Returns the refusal of a captured connection that carries no HTTP.
pub fn not_http(details: &'static str) -> Refusal {
    closing(Reason::NotHttp, details)
}

/// Returns the refusal of TLS on a listener of plain HTTP.
pub fn unexpected_tls() -> Refusal {
    Refusal::malformed(
        "this is TLS, but this listener uses plain HTTP: write http:// in the proxy's URL, or use an https:// listener",
    )
}

/// Returns the refusal of a request whose body does not arrive in time.
pub fn body_timeout() -> Refusal {
    let details = "the request body did not arrive in time";
    closing(Reason::BodyTimeout, details)
}

fn closing(reason: Reason, details: &'static str) -> Refusal {
    // Nothing says where the next request would begin.
    Refusal { closes_connection: true, ..Refusal::new(reason, details) }
}

/// Returns the refusal of a request that gets no slot. `robots_delay`: the delay in the origin's robots.txt, if that is the one
/// that is kept. `unit`: the pace unit of the origin.
pub fn too_soon(
    too_soon: &TooSoon,
    robots_delay: Option<Duration>,
    unit: Option<&PaceUnit>,
    origin: &Origin,
) -> Refusal {
    let reason = match too_soon.cause {
        TooSoonCause::CrawlDelay
        | TooSoonCause::FleetLost
        | TooSoonCause::SlotLost
        | TooSoonCause::ShareFull => Reason::CrawlDelay,
        TooSoonCause::OriginRests | TooSoonCause::Slowed => Reason::OriginRests,
        TooSoonCause::Concurrency => Reason::Concurrency,
    };
    let details = match unit {
        Some(unit) => too_soon_in_shared_pace(too_soon.cause, unit),
        None => None,
    };
    let details = details.unwrap_or_else(|| too_soon_at_origin(too_soon.cause, robots_delay));
    // A delay from the configuration is not the site's: its robots.txt is not named for it.
    let is_by_robots_txt =
        matches!(too_soon.cause, TooSoonCause::CrawlDelay | TooSoonCause::FleetLost)
            && robots_delay.is_some();
    Refusal {
        is_policy: true,
        robots_url: is_by_robots_txt.then(|| origin.robots_txt_uri().into()),
        retry_after: Some(too_soon.retry_after),
        ..Refusal::new(reason, details)
    }
}

/// The beginning of the details of refusals by a delay that robots.txt states.
const DELAY_OF_ROBOTS_TXT: &str = "the origin asks for ";

/// Returns whether the details of a refusal for `crawl-delay` name the delay in robots.txt, not one of the configuration.
pub fn is_delay_of_robots_txt(details: &str) -> bool {
    details.starts_with(DELAY_OF_ROBOTS_TXT)
}

fn too_soon_at_origin(cause: TooSoonCause, robots_delay: Option<Duration>) -> String {
    let details = match cause {
        TooSoonCause::CrawlDelay => match robots_delay {
            Some(delay) => {
                let delay = humantime::format_duration(delay);
                return format!("{DELAY_OF_ROBOTS_TXT}{delay} between this crawler's requests");
            }
            None => {
                "default_delay or min_delay sets a time between this crawler's requests to an origin"
            }
        },
        TooSoonCause::FleetLost => {
            "requests to the origin have a delay between them, and the fleet's engine, which knows the requests of other nodes, is unreachable"
        }
        TooSoonCause::SlotLost => {
            "this node of the fleet hung, or lost the engine, for so long that another may have used this request's slot"
        }
        TooSoonCause::OriginRests => "the origin asked for fewer requests",
        TooSoonCause::Slowed => {
            "the origin refused requests or became slower, so requests to it are slowed down (politeness.adaptive)"
        }
        TooSoonCause::Concurrency => {
            "politeness.max_concurrent_per_origin requests of this crawler to the origin are in progress"
        }
        TooSoonCause::ShareFull => {
            "this client keeps so many origins waiting or resting that the delay of another could not be remembered"
        }
    };
    details.to_owned()
}

/// Returns the details for an origin that shares its pace, where they differ.
fn too_soon_in_shared_pace(cause: TooSoonCause, unit: &PaceUnit) -> Option<String> {
    match cause {
        TooSoonCause::CrawlDelay => Some(format!(
            "origins of {unit} share one pace (politeness.share), with a delay between all requests"
        )),
        TooSoonCause::OriginRests => Some(format!(
            "an origin of {unit}, which share one pace (politeness.share), asked for fewer requests"
        )),
        TooSoonCause::Concurrency => Some(format!(
            "politeness.max_concurrent_per_origin requests to {unit} (politeness.share) are in progress"
        )),
        TooSoonCause::FleetLost
        | TooSoonCause::SlotLost
        | TooSoonCause::Slowed
        | TooSoonCause::ShareFull => None,
    }
}
