//! Links between lines: each carries the digest of the line before it as its last member. Members are spliced into the
//! serialised JSON as text, because the bytes that were hashed must never change.

use crate::observe::digest::Digest;

/// The beginning of the member that names the line before.
const MEMBER: &str = ",\"prev_sha256\":\"";
/// The beginning of the last member of a signed line.
const SIGNATURE: &[u8] = b",\"signature\":\"";
/// The digest in the very first line of a log, which has no line before it.
pub(crate) const NONE: Digest = Digest([0; 32]);
/// The end of the member and of the object.
const END: &[u8] = b"\"}";
const DIGITS: usize = 64;

/// Returns the object with `members` added, which begin with a comma.
pub(crate) fn with_members(object: &[u8], members: &str) -> Vec<u8> {
    [opened(object), members.as_bytes(), b"}"].concat()
}

/// Returns the object as a line that follows the line with the digest `previous`.
pub(crate) fn linked(object: &[u8], previous: Digest) -> Vec<u8> {
    [opened(object), MEMBER.as_bytes(), &previous.hex(), END].concat()
}

/// Returns the object without its closing brace.
fn opened(object: &[u8]) -> &[u8] {
    object
        .strip_suffix(b"}")
        .expect("an object ends in a brace")
}

/// Returns the digest of the line before, which is the last member of a line but for a signature.
pub(crate) fn previous(line: &[u8]) -> Option<Digest> {
    let unsigned = signed_part(line).map(|(signed, _)| signed);
    let line = unsigned.as_deref().unwrap_or(line);
    let rest = line.strip_suffix(END)?;
    let (before, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    before.ends_with(MEMBER.as_bytes()).then_some(())?;
    Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// Returns the digest of the configuration that made a decision: the member before the digest of the previous line.
pub(crate) fn configuration(line: &[u8]) -> Option<Digest> {
    const CONFIGURATION: &[u8] = b",\"config_sha256\":\"";
    // From the end: a URL earlier in the line may contain the same text, though escaped.
    let at = memchr::memmem::rfind(line, CONFIGURATION)? + CONFIGURATION.len();
    let digits = line.get(at..at + DIGITS)?;
    Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// Splits a signed line into the bytes that were signed and the signature (base64url).
pub(crate) fn signed_part(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let at = memchr::memmem::rfind(line, SIGNATURE)?;
    let signature = line[at + SIGNATURE.len()..].strip_suffix(b"\"}")?;
    // Decisions have a member of this name, too, but not as their last.
    (!signature.contains(&b'"')).then_some(())?;
    Some(([&line[..at], b"}"].concat(), signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_survives_parsing() {
        let line = linked(br#"{"a":1}"#, Digest::of(b"abc"));
        assert_eq!(previous(&line), Some(Digest::of(b"abc")));
        for other in ["", "{}", "{\"prev_sha256\":\"00\"}", "\"}"] {
            assert_eq!(previous(other.as_bytes()), None, "{other}");
        }
        assert_eq!(previous(&line[..line.len() - 1]), None);
    }
}
