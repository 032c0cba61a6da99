//! The canonical spelling of hosts, as the WHATWG URL standard writes it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use idna::AsciiDenyList;

/// Returns the host as the WHATWG URL standard's host parser writes it: A-labels in lower case, IPv6 literals
/// compressed and in brackets, every spelling of an IPv4 address as four decimal numbers.
///
/// One trailing dot is removed: `example.com.` names the same DNS host as `example.com`, and with two entries for one
/// host the second would bypass the first. `None` for empty labels and for names too long for the DNS, which can never
/// be fetched, and for names with bytes other than letters, digits, `-`, `_` and dots.
pub(crate) fn canonical_host(host: &str) -> Option<String> {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.strip_suffix(']')?.parse().ok().map(ipv6);
    }
    // The URL standard decodes before IDNA, so `%65xample.com` is `example.com`.
    let decoded = percent_decoded(host);
    let ascii = idna::domain_to_ascii_cow(&decoded, AsciiDenyList::URL).ok()?;
    // `example.com.` and `example.com` must share one robots.txt, one connection pool and one pace.
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    // RFC 1035 §2.3.4 allows a name 255 octets: one before each label, the text, and the root's.
    let fits_dns =
        name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len()));
    // The URL standard accepts `a;b` and the like, but implementations disagree about where such a host ends.
    if !fits_dns
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    {
        return None;
    }
    // `0x7f.1` and `127.0.0.1` must not differ for egress checks.
    if ends_in_number(name) {
        return ipv4(name).map(|address| address.to_string());
    }
    Some(name.to_owned())
}

fn percent_decoded(host: &str) -> Cow<'_, [u8]> {
    if !host.contains('%') {
        return Cow::Borrowed(host.as_bytes());
    }
    let mut decoded = Vec::with_capacity(host.len());
    let mut rest = host.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = if byte == b'%' { crate::percent_encoding::hex_pair(tail) } else { None };
        // A lone `%` is kept, which makes the host invalid.
        decoded.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    Cow::Owned(decoded)
}

/// Writes an IPv6 address with its first longest run of zeros compressed; an embedded IPv4 address is
/// written in hexadecimal too.
fn ipv6(address: Ipv6Addr) -> String {
    // Not `Display`, which writes `::ffff:127.0.0.1` where the URL standard has `::ffff:7f00:1`.
    let segments = address.segments();
    // A single zero is not compressed (RFC 5952 §4.2.2), hence the initial run of one.
    let mut at = 0;
    let mut run = 1;
    for start in 0..8 {
        let zeros = segments[start..].iter().take_while(|&&segment| segment == 0).count();
        if zeros > run {
            (at, run) = (start, zeros);
        }
    }
    let mut text = String::from("[");
    let mut index = 0;
    while index < 8 {
        if run > 1 && index == at {
            text.push_str(if index == 0 { "::" } else { ":" });
            index += run;
            continue;
        }
        let separator = if index == 7 { "" } else { ":" };
        let _ = write!(text, "{:x}{separator}", segments[index]);
        index += 1;
    }
    text.push(']');
    text
}

/// Returns whether the last label makes this an IPv4 address or invalid (URL standard, host parsing).
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit()) || ipv4_number(last).is_some()
}

/// Parses one to four numbers, decimal, octal or hexadecimal; the last one fills the remaining bytes.
fn ipv4(name: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = name.split('.').map(ipv4_number).collect::<Option<_>>()?;
    let (&last, bytes) = numbers.split_last()?;
    if bytes.len() > 3 || bytes.iter().any(|&byte| byte > 255) {
        return None;
    }
    let bits_left = 8 * (4 - bytes.len() as u32);
    if last >> bits_left != 0 {
        return None;
    }
    let high = (0u32..).zip(bytes).map(|(index, &byte)| byte << (24 - 8 * index)).sum::<u64>();
    u32::try_from(high + last).ok().map(Ipv4Addr::from)
}

fn ipv4_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() {
        // The URL standard reads `0x` as zero.
        return (radix == 16).then_some(0);
    }
    // Checked here because Rust's parser also accepts a sign.
    let all_digits = digits.chars().all(|c| c.is_digit(radix));
    // Saturating is safe: a number this long is out of range in any case.
    all_digits.then(|| u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
