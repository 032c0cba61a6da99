//! What a line carries of the line before, as its last member; and how members are added to a line that is JSON already.

use crate::observe::digest::Digest;

/// The name of the member.
const MEMBER: &str = ",\"prev_sha256\":\"";
/// The last member of a signed line.
const SIGNATURE: &[u8] = b",\"signature\":\"";
/// Stands in the first line of all.
pub(crate) const NONE: Digest = Digest([0; 32]);
/// What is behind the digest.
const END: &[u8] = b"\"}";
const DIGITS: usize = 64;

/// Adds `members`, which begin with a comma, to an object.
pub(crate) fn with_members(object: &[u8], members: &str) -> Vec<u8> {
    [opened(object), members.as_bytes(), b"}"].concat()
}

/// An object as a line that follows the line with this digest.
pub(crate) fn linked(object: &[u8], previous: Digest) -> Vec<u8> {
    [opened(object), MEMBER.as_bytes(), &previous.hex(), END].concat()
}

/// An object without its last brace.
fn opened(object: &[u8]) -> &[u8] {
    object
        .strip_suffix(b"}")
        .expect("an object ends in a brace")
}

/// The digest of the line before, as a line carries it: in its last member, before a signature if there is one.
pub(crate) fn previous(line: &[u8]) -> Option<Digest> {
    let unsigned = signed_part(line).map(|(signed, _)| signed);
    let line = unsigned.as_deref().unwrap_or(line);
    let rest = line.strip_suffix(END)?;
    let (before, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    before.ends_with(MEMBER.as_bytes()).then_some(())?;
    Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// The digest of the configuration that a decision was made by, as its line carries it before that of the line before.
pub(crate) fn configuration(line: &[u8]) -> Option<Digest> {
    const CONFIGURATION: &[u8] = b",\"config_sha256\":\"";
    let at = memchr::memmem::rfind(line, CONFIGURATION)? + CONFIGURATION.len();
    let digits = line.get(at..at + DIGITS)?;
    Digest::from_hex(str::from_utf8(digits).ok()?)
}

/// What is signed of a line, and the signature as written.
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
    fn what_a_line_carries_reads_back() {
        let line = linked(br#"{"a":1}"#, Digest::of(b"abc"));
        assert_eq!(previous(&line), Some(Digest::of(b"abc")));
        for other in ["", "{}", "{\"prev_sha256\":\"00\"}", "\"}"] {
            assert_eq!(previous(other.as_bytes()), None, "{other}");
        }
        assert_eq!(previous(&line[..line.len() - 1]), None);
    }
}
