//! The destination of a request, from everything in it that names one (RFC 9112 section 3.2).

use wayleave_robots_txt::{InvalidUrl, Origin, Target, UrlScheme, excerpt};

use super::ftp_path;

/// Everything in a request that names a destination.
#[derive(Clone, Copy, Debug)]
pub struct RequestTarget<'a> {
    pub method: &'a str,
    /// The request target as received; for HTTP/2 the `:path`.
    pub target: &'a str,
    /// HTTP/2's `:scheme`.
    pub scheme: Option<&'a str>,
    /// `Host`, or HTTP/2's `:authority`.
    pub authority: Option<&'a str>,
}

/// A reason why a request has no destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    Malformed(String),
    /// The request is for another origin than its tunnel.
    Misdirected(String),
    /// The request is for another scheme than `http` and `https`.
    Scheme(String),
    TooLong(String),
}

impl From<InvalidUrl> for TargetError {
    fn from(error: InvalidUrl) -> Self {
        match error {
            InvalidUrl::UnsupportedScheme(_) => Self::Scheme(error.to_string()),
            InvalidUrl::TooLong => Self::TooLong(format!("request target: {error}")),
            _ => Self::Malformed(format!("request target: {error}")),
        }
    }
}

impl RequestTarget<'_> {
    /// Resolves a request outside of tunnels, where only the absolute form names an origin (RFC 9112 section 3.2.2)
    /// and `Host` is ignored.
    ///
    /// # Errors
    ///
    /// If the target is not an absolute URL that can be requested.
    pub fn resolve(&self) -> Result<Target, TargetError> {
        self.refuse_connect()?;
        let target = self.parse_absolute()?;
        target.check_length()?;
        if target.origin().scheme() == UrlScheme::Ftp {
            self.check_ftp(&target)?;
        }
        Ok(target)
    }

    /// Checks that an `ftp:` URL is read only, and names one file in one way.
    fn check_ftp(&self, target: &Target) -> Result<(), TargetError> {
        if !matches!(self.method, "GET" | "HEAD") {
            let details = "ftp: URLs are for GET and HEAD only";
            return Err(TargetError::Scheme(details.to_owned()));
        }
        ftp_path::decode(target.path().as_str())
            .and_then(|_| ftp_path::check_credentials(self.target))
            .map_err(|details| TargetError::Malformed(details.to_owned()))
    }

    /// Resolves a request inside a tunnel to `origin`.
    ///
    /// # Errors
    ///
    /// If the target is malformed, or if anything in the request names another origin.
    pub fn resolve_in_tunnel(&self, origin: &Origin) -> Result<Target, TargetError> {
        self.refuse_connect()?;
        // A server may take the origin from any of these, so all of them have to name the tunnel's.
        if let Some(scheme) = self.scheme
            && scheme != origin.scheme().as_str()
        {
            return Err(misdirected(&format!("says {scheme}"), origin));
        }
        if let Some(authority) = self.authority
            && Origin::from_authority(origin.scheme(), authority)? != *origin
        {
            return Err(misdirected(&format!("names {}", excerpt(authority)), origin));
        }
        // RFC 9112 section 3.2.4. The rules judge it as a request for `/`.
        if self.target == "*" && self.method == "OPTIONS" {
            return Ok(Target::new(origin.clone(), "/")?);
        }
        if self.target.starts_with('/') {
            let target = Target::new(origin.clone(), self.target)?;
            target.check_length()?;
            return Ok(target);
        }
        let target = self.parse_absolute()?;
        target.check_length()?;
        if target.origin() == origin {
            Ok(target)
        } else {
            Err(misdirected(&format!("is for {}", target.origin()), origin))
        }
    }

    /// Returns whether this is an `OPTIONS` request for the server as a whole (RFC 9112 section 3.2.4), provided its
    /// target can be resolved.
    pub fn is_server_wide_options(&self) -> bool {
        if self.method != "OPTIONS" || self.target.starts_with('/') {
            return false;
        }
        let after_scheme = self.target.split_once("://").map_or(self.target, |(_, rest)| rest);
        !after_scheme.contains(['/', '?', '#'])
    }

    fn refuse_connect(&self) -> Result<(), TargetError> {
        if self.method == "CONNECT" {
            // This includes HTTP/2's extended CONNECT (RFC 8441), which is not offered.
            return Err(TargetError::Malformed("CONNECT inside a tunnel".to_owned()));
        }
        Ok(())
    }

    fn parse_absolute(&self) -> Result<Target, TargetError> {
        if self.target.starts_with('/') || self.target == "*" {
            let details = "this is a proxy: the request target must be an absolute URL";
            return Err(TargetError::Malformed(details.to_owned()));
        }
        Target::parse(self.target).map_err(|error| target_error(error, self.target))
    }
}

/// Returns a target as received for use in logs, without anything before an `@`, which may be a password.
pub fn without_credentials(target: &str) -> String {
    // A path has no userinfo.
    let is_path = target.starts_with('/') && !target.starts_with("//");
    if is_path || !target.contains('@') {
        return target.to_owned();
    }
    match (Target::parse(target), target.rsplit_once('@')) {
        // In an invalid URL anything before the last `@` may belong to a password.
        (Err(_), Some((_, rest))) => rest.to_owned(),
        _ => ftp_path::without_credentials(target),
    }
}

/// Describes why a target is invalid, without repeating any part that may be a password.
fn target_error(error: InvalidUrl, target: &str) -> TargetError {
    match error {
        InvalidUrl::UnsupportedScheme(_) if target.contains('@') => {
            TargetError::Scheme("unsupported scheme".to_owned())
        }
        InvalidUrl::Host(_) | InvalidUrl::Port(_) if target.contains('@') => {
            TargetError::Malformed("request target: invalid host or port".to_owned())
        }
        error => error.into(),
    }
}

/// Returns the origin of the tunnel that a `CONNECT` asks for.
///
/// # Errors
///
/// If the authority is malformed or has no port (RFC 9110 section 9.3.6).
pub fn connect_origin(authority: &str, scheme: UrlScheme) -> Result<Origin, TargetError> {
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    if !port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let authority = without_credentials(authority);
        let details = format!("CONNECT to {}: the port is missing", excerpt(&authority));
        return Err(TargetError::Malformed(details));
    }
    Ok(Origin::from_authority(scheme, authority)?)
}

fn misdirected(what: &str, origin: &Origin) -> TargetError {
    TargetError::Misdirected(format!("the request {what}, but the tunnel is to {origin}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_target_has_no_password() {
        let long = format!("shop.test/@{}", "a".repeat(Target::MAX_BYTES));
        for (target, logged) in [
            ("http://user:pw@shop.test/a@b", "http://shop.test/a@b"),
            ("user:pw@shop.test:443", "shop.test:443"),
            ("http:user:pw@shop.test/", "shop.test/"),
            ("http://user:pw@shop.test:x/a", "shop.test:x/a"),
            ("http://user:p/w@shop.test/a", "shop.test/a"),
            ("//user:pw@shop.test/a", "shop.test/a"),
            ("/a@b", "/a@b"),
            ("http://shop.test/@a", "http://shop.test/@a"),
            ("shop.test", "shop.test"),
            (&format!("http://user:pw@{long}"), &format!("http://{long}")),
        ] {
            assert_eq!(without_credentials(target), logged, "{target}");
        }
        for target in ["pw:x@shop.test/", "http://user:pw/@shop.test/"] {
            let named = RequestTarget { method: "GET", target, scheme: None, authority: None };
            let unresolved = named.resolve().unwrap_err();
            assert!(!format!("{unresolved:?}").contains("pw"), "{unresolved:?}");
        }
        let unresolved = connect_origin("user:pw@shop.test", UrlScheme::Https).unwrap_err();
        assert!(!format!("{unresolved:?}").contains("pw"), "{unresolved:?}");
    }

    #[test]
    fn connect_needs_a_port() {
        for authority in ["shop.test", "shop.test:", "shop.test:x", "[::1]", ":443", ""] {
            let unresolved = connect_origin(authority, UrlScheme::Https).unwrap_err();
            assert!(matches!(unresolved, TargetError::Malformed(_)), "{authority}: {unresolved:?}");
        }
    }
}
