//! Links between lines: each carries the digest of the line before it as its last member. Members are spliced into the
//! serialised JSON as text, because the bytes that were hashed must never change.

use crate::digest::Sha256Digest;

/// The beginning of the member that names the line before.
const PREVIOUS_MEMBER: &str = ",\"prev_sha256\":\"";
/// The beginning of the last member of a signed line.
const SIGNATURE_MEMBER: &[u8] = b",\"signature\":\"";
/// The digest in the very first line of a log, which has no line before it.
pub const NO_PREVIOUS: Sha256Digest = Sha256Digest([0; 32]);
/// The end of the member and of the object.
const MEMBER_END: &[u8] = b"\"}";
const DIGEST_DIGITS: usize = 64;

/// Returns the object with `members` added, which begin with a comma.
pub fn append_members(object: &[u8], members: &str) -> Vec<u8> {
    [without_brace(object), members.as_bytes(), b"}"].concat()
}

/// Returns the object as a line that follows the line with the digest `previous`.
pub fn link_line(object: &[u8], previous: Sha256Digest) -> Vec<u8> {
    let mut line = Vec::new();
    push_linked(&mut line, object, previous);
    line
}

/// Appends the object to `lines` as a line that follows the line with the digest `previous`.
pub fn push_linked(lines: &mut Vec<u8>, object: &[u8], previous: Sha256Digest) {
    for part in [without_brace(object), PREVIOUS_MEMBER.as_bytes(), &previous.hex(), MEMBER_END] {
        lines.extend_from_slice(part);
    }
}

/// Returns the object without its closing brace.
fn without_brace(object: &[u8]) -> &[u8] {
    object.strip_suffix(b"}").expect("an object ends in a brace")
}

/// Returns the digest of the line before, which is the last member of a line but for a signature.
pub fn previous_digest(line: &[u8]) -> Option<Sha256Digest> {
    let unsigned = split_signature(line).map(|(signed, _)| signed);
    let rest = unsigned.as_deref().unwrap_or(line).strip_suffix(MEMBER_END)?;
    let (before, digits) = rest.split_at_checked(rest.len().checked_sub(DIGEST_DIGITS)?)?;
    before.ends_with(PREVIOUS_MEMBER.as_bytes()).then_some(())?;
    Sha256Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// Returns the digest of the configuration that made a decision: the member before the digest of the previous line.
pub fn config_digest(line: &[u8]) -> Option<Sha256Digest> {
    const CONFIGURATION: &[u8] = b",\"config_sha256\":\"";
    // From the end: a URL earlier in the line may contain the same text, though escaped.
    let at = memchr::memmem::rfind(line, CONFIGURATION)? + CONFIGURATION.len();
    let digits = line.get(at..at + DIGEST_DIGITS)?;
    Sha256Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// Splits a signed line into the bytes that were signed and the signature (base64url).
pub fn split_signature(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let at = memchr::memmem::rfind(line, SIGNATURE_MEMBER)?;
    let signature = line[at + SIGNATURE_MEMBER.len()..].strip_suffix(b"\"}")?;
    // Decisions have a member of this name, too, but not as their last.
    (!signature.contains(&b'"')).then_some(())?;
    Some(([&line[..at], b"}"].concat(), signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_survives_parsing() {
        let line = link_line(br#"{"a":1}"#, Sha256Digest::of(b"abc"));
        assert_eq!(previous_digest(&line), Some(Sha256Digest::of(b"abc")));
        for other in ["", "{}", "{\"prev_sha256\":\"00\"}", "\"}"] {
            assert_eq!(previous_digest(other.as_bytes()), None, "{other}");
        }
        assert_eq!(previous_digest(&line[..line.len() - 1]), None);
    }
}
