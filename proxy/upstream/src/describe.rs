//! Messages for operators about failures of the system, TLS and HTTP/2 on the way to an origin. Errors of wayleave's
//! own describe themselves.

use std::io;
use std::net::SocketAddr;

use rustls::{CertificateError, InvalidMessage};
use wayleave_transport::tls;

/// The most names of a certificate that a message lists.
const MAX_NAMES: usize = 3;

/// Describes an error on an established connection.
pub(crate) fn broken_connection(error: &io::Error) -> String {
    let message = match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the origin closed the connection in the middle"
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            "the origin reset the connection"
        }
        io::ErrorKind::TimedOut => "the origin stopped answering",
        _ => match tls::rustls_error(error) {
            Some(error) => return tls_failure(error),
            None => return system_message(error),
        },
    };
    message.to_owned()
}

/// Describes a connection to `address` that could not be opened.
pub(super) fn failed_connect(address: Option<SocketAddr>, error: &io::Error) -> String {
    let Some(address) = address else {
        return "there is no address to dial".to_owned();
    };
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("connection refused by {address}"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            format!("connection reset by {address}")
        }
        io::ErrorKind::TimedOut => format!("{address} does not answer"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            format!("no route to {address}")
        }
        _ => format!("connecting to {address}: {}", system_message(error)),
    }
}

/// Describes an error in the TLS handshake.
pub(super) fn failed_handshake(error: &io::Error) -> String {
    match (tls::rustls_error(error), error.kind()) {
        (Some(error), _) => tls_failure(error),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the origin closed the connection in the TLS handshake".to_owned()
        }
        (None, _) => format!("TLS handshake: {}", broken_connection(error)),
    }
}

fn tls_failure(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::NoCertificatesPresented => "the origin sent no certificate".to_owned(),
        rustls::Error::AlertReceived(alert) => {
            let name = split_camel_case(&format!("{alert:?}"));
            format!("the origin ended TLS: {name}")
        }
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the origin does not use TLS on this port".to_owned(),
        rustls::Error::PeerIncompatible(_) => {
            "the origin has no TLS version or cipher suite in common with wayleave".to_owned()
        }
        rustls::Error::NoApplicationProtocol => {
            "the origin accepts no HTTP version that wayleave offers".to_owned()
        }
        rustls::Error::DecryptError => "a TLS record cannot be decrypted".to_owned(),
        _ => "the origin broke the TLS protocol".to_owned(),
    }
}

fn certificate(error: &CertificateError) -> String {
    let message = match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            return format!("certificate expired on {}", format_day(not_after.as_secs()));
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            return format!("certificate is not valid before {}", format_day(not_before.as_secs()));
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            return wrong_name(&expected.to_str(), presented);
        }
        CertificateError::Expired => "certificate expired",
        CertificateError::NotValidYet => "certificate is not valid yet",
        CertificateError::NotValidForName => "certificate is for another host",
        CertificateError::Revoked => "certificate was revoked",
        CertificateError::UnknownIssuer | CertificateError::Other(_) => {
            "certificate is not issued by a trusted authority"
        }
        CertificateError::BadSignature => "certificate has an invalid signature",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate is not for servers"
        }
        CertificateError::BadEncoding => "certificate cannot be read",
        _ => "certificate cannot be verified",
    };
    message.to_owned()
}

/// Describes a certificate for other names. rustls writes each of `presented` as `DnsName("a.example")`.
fn wrong_name(expected: &str, presented: &[String]) -> String {
    let name = |text: &String| Some(text.split_once('"')?.1.split_once('"')?.0.to_owned());
    let names: Vec<_> = presented.iter().filter_map(name).take(MAX_NAMES).collect();
    match names.len() {
        0 => format!("certificate is not for {expected}"),
        listed => {
            let more = match presented.len() - listed {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("certificate is for {}{more}, not for {expected}", names.join(", "))
        }
    }
}

/// Formats the day of a Unix time, such as `2026-11-22`. Certificates have no year beyond 9999.
fn format_day(seconds: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(at).to_string()[..10].to_owned()
}

/// Describes an error of an HTTP/2 stream or its connection.
pub(super) fn http2(error: &h2::Error) -> String {
    let reason = error.reason().map(|reason| format!(": {reason:?}")).unwrap_or_default();
    if let Some(error) = error.get_io() {
        broken_connection(error)
    } else if error.is_remote() && error.is_reset() {
        format!("the origin reset the HTTP/2 stream{reason}")
    } else if error.is_remote() && error.is_go_away() {
        format!("the origin closed the HTTP/2 connection{reason}")
    } else if error.is_library() {
        format!("the origin broke the HTTP/2 protocol{reason}")
    } else {
        format!("the HTTP/2 stream failed{reason}")
    }
}

/// Returns the system's message without the error number and the capital letter.
fn system_message(error: &io::Error) -> String {
    let mut message = error.to_string();
    if let Some(number_at) = message.find(" (os error") {
        message.truncate(number_at);
    }
    if let Some(first) = message.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    message
}

/// Splits camel case into words: `HandshakeFailure` becomes `handshake failure`.
fn split_camel_case(name: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = letter.is_ascii_lowercase();
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_is_split_into_words() {
        for (name, expected) in [
            ("HandshakeFailure", "handshake failure"),
            ("UnknownCA", "unknown ca"),
            ("UnknownPSKIdentity", "unknown pskidentity"),
        ] {
            assert_eq!(split_camel_case(name), expected);
        }
    }

    #[test]
    fn long_lists_of_certificate_names_are_cut() {
        let names: Vec<_> =
            ["a", "b", "c", "d", "e"].map(|name| format!("DnsName(\"{name}.example\")")).into();
        assert_eq!(
            wrong_name("x.test", &names),
            "certificate is for a.example, b.example, c.example and 2 more, not for x.test"
        );
        assert_eq!(wrong_name("x.test", &[]), "certificate is not for x.test");
    }

    #[test]
    fn system_message_has_no_error_number() {
        let error = io::Error::from_raw_os_error(13);
        assert_eq!(system_message(&error), "permission denied");
    }
}
