//! Repairs heads and trailers of origins where RFC 9112 lets a proxy do so.

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memmem};

use super::oddities::{Oddities, Oddity};

/// The first line of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionStart {
    StartLine,
    FirstField,
}

/// The line endings that a section may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEndings {
    CrlfOnly,
    /// CRLF, or LF alone (RFC 9112 section 2.2).
    CrlfOrLf,
}

/// Returns the end of the first empty line, if there is one. The first `scanned` bytes were searched before.
pub(super) fn section_end(
    buffered: &[u8],
    scanned: usize,
    lines: LineEndings,
) -> Result<Option<usize>, &'static str> {
    for at in memchr_iter(b'\n', &buffered[scanned..]) {
        let end = scanned + at;
        let line = match (buffered[..end].strip_suffix(b"\r"), lines) {
            (Some(line), _) => line,
            (None, LineEndings::CrlfOrLf) => &buffered[..end],
            (None, LineEndings::CrlfOnly) => return Err("a line ends without CR"),
        };
        // Only the line before can contribute this LF, so the line is empty.
        if line.is_empty() || line.ends_with(b"\n") {
            return Ok(Some(end + 1));
        }
    }
    Ok(None)
}

/// Returns a section, which ends in an empty line, with each line ended by CRLF (RFC 9112 section 2.2), folded fields
/// joined to one line (section 5.2), no whitespace before a colon (section 5.1), spaces for control characters in values
/// (RFC 9110 section 5.5) and no line that is no field, and which of these repairs it needed.
///
/// # Errors
///
/// If the first field begins with whitespace, which section 2.2 says to reject, or a line that is no field, or has a
/// control character, could be framing to another reader.
pub(super) fn repair(
    section: Bytes,
    begins: SectionStart,
) -> Result<(Bytes, Oddities), &'static str> {
    let fields = match begins {
        SectionStart::StartLine => memchr(b'\n', &section).map_or(section.len(), |end| end + 1),
        SectionStart::FirstField => 0,
    };
    if is_continuation(&section[fields..]) {
        return Err("whitespace before the first field");
    }
    // Nearly every response is well-formed; only the others are copied.
    let oddities = find_oddities(&section, fields)?;
    if oddities.is_empty() {
        return Ok((section, oddities));
    }
    let mut repaired = BytesMut::with_capacity(section.len() + 16);
    for line in split_lines(&section[..fields]) {
        repaired.extend_from_slice(line);
        repaired.extend_from_slice(b"\r\n");
    }
    for line in split_lines(&section[fields..]) {
        push_repaired_line(&mut repaired, line);
    }
    Ok((repaired.freeze(), oddities))
}

fn find_oddities(section: &[u8], fields: usize) -> Result<Oddities, &'static str> {
    let mut found = Oddities::default();
    let ends_in_bare_lf = |line: &[u8]| !line.ends_with(b"\r");
    if split_at_lf(&section[..fields]).any(ends_in_bare_lf) {
        found.insert(Oddity::BareLf);
    }
    let mut was_skipped = false;
    for line in split_at_lf(&section[fields..]) {
        if ends_in_bare_lf(line) {
            found.insert(Oddity::BareLf);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_well_formed(line) {
            was_skipped = false;
            continue;
        }
        if is_continuation(line) {
            if was_skipped {
                return Err("whitespace after a line that is no field");
            }
            found.insert(Oddity::FoldedField);
            continue;
        }
        was_skipped = !line.is_empty() && !has_field_name(line);
        if was_skipped {
            if may_be_framing(line) {
                return Err("a line is no field, but could be framing");
            }
            found.insert(Oddity::SkippedLine);
            continue;
        }
        if has_space_before_colon(line) {
            found.insert(Oddity::SpaceBeforeColon);
        }
        if line.iter().any(is_control) {
            if names_framing(line) {
                return Err("a control character in a line that could be framing");
            }
            found.insert(Oddity::ControlCharacter);
        }
    }
    Ok(found)
}

/// Returns whether a line is a token, a colon and a value without control characters, as nearly every line is. Every byte of
/// every response is looked at here: a table and a loop without a way out take a fifth of the time.
fn is_well_formed(line: &[u8]) -> bool {
    const TOKEN_BYTES: [bool; 256] = {
        let mut bytes = [false; 256];
        let mut byte = 0;
        while byte < bytes.len() {
            bytes[byte] = is_token_byte(byte as u8);
            byte += 1;
        }
        bytes
    };
    let is_in_name = |byte: &u8| TOKEN_BYTES[usize::from(*byte)];
    let name_end = line.iter().position(|byte| !is_in_name(byte)).unwrap_or(line.len());
    let (name, value) = line.split_at(name_end);
    let has_control = value.iter().fold(false, |found, byte| found | is_control(byte));
    !name.is_empty() && value.first() == Some(&b':') && !has_control
}

/// Returns whether a line begins with a token and a colon, perhaps with whitespace between them.
fn has_field_name(line: &[u8]) -> bool {
    // Names are too short for memchr to be faster.
    let name = line.iter().position(|&byte| byte == b':').map(|colon| &line[..colon]);
    let name = name.map(trim_trailing_whitespace).unwrap_or_default();
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte))
}

/// Returns whether a token may contain `byte` (RFC 9110 section 5.6.2).
const fn is_token_byte(byte: u8) -> bool {
    const OTHERS: &[u8] = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < OTHERS.len() && OTHERS[at] != byte {
        at += 1;
    }
    at < OTHERS.len() || byte.is_ascii_alphanumeric()
}

/// Returns whether another reader could see the framing of the message in a line that is no field: words of it, or a
/// byte at which some readers end a line.
fn may_be_framing(line: &[u8]) -> bool {
    line.iter().any(|byte| matches!(byte, b'\r' | b'\0')) || names_framing(line)
}

/// Returns whether a line has words of framing, however they are spelt and separated.
fn names_framing(line: &[u8]) -> bool {
    const WORDS: [&[u8]; 3] = [b"contentlength", b"transferencoding", b"chunked"];
    let letters: Vec<u8> =
        line.iter().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_lowercase).collect();
    WORDS.iter().any(|word| memmem::find(&letters, word).is_some())
}

/// Returns whether no value may contain `byte` (RFC 9110 section 5.5).
fn is_control(byte: &u8) -> bool {
    byte.is_ascii_control() && *byte != b'\t'
}

/// Returns the lines without their endings, which all of them have.
fn split_lines(section: &[u8]) -> impl Iterator<Item = &[u8]> {
    split_at_lf(section).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns the lines without their LF, but with the CR before it.
fn split_at_lf(section: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut begin = 0;
    memchr_iter(b'\n', section).map(move |end| {
        let line = &section[begin..end];
        begin = end + 1;
        line
    })
}

fn push_repaired_line(repaired: &mut BytesMut, line: &[u8]) {
    if is_continuation(line) {
        // A fold becomes one space (RFC 9112 section 5.2).
        let before = repaired.strip_suffix(b"\r\n").unwrap_or(repaired);
        repaired.truncate(before.trim_ascii_end().len());
        repaired.extend_from_slice(b" ");
        repaired.extend_from_slice(line.trim_ascii());
    } else if let Some(colon) = memchr(b':', line).filter(|_| has_field_name(line)) {
        repaired.extend_from_slice(trim_trailing_whitespace(&line[..colon]));
        let value = line[colon..].iter();
        repaired.extend(value.map(|byte| if is_control(byte) { b' ' } else { *byte }));
    } else if !line.is_empty() {
        return;
    }
    repaired.extend_from_slice(b"\r\n");
}

fn is_continuation(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

fn has_space_before_colon(line: &[u8]) -> bool {
    // Names are too short for memchr to be faster.
    let colon = line.iter().position(|&byte| byte == b':');
    colon.is_some_and(|colon| line[..colon].ends_with(b" ") || line[..colon].ends_with(b"\t"))
}

fn trim_trailing_whitespace(mut name: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = name {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(section: &'static str) -> Result<(String, Vec<&'static str>), &'static str> {
        let (bytes, found) = repair(section.as_bytes().into(), SectionStart::StartLine)?;
        let found = found.iter().map(Oddity::as_str).collect();
        Ok((String::from_utf8(bytes.to_vec()).unwrap(), found))
    }

    #[test]
    fn well_formed_section_is_unchanged() {
        // Repairs to fields are not in the first line.
        for head in ["HTTP/1.1 200 OK : so\r\nX: a : b\r\nY:\r\n\r\n", " H\r\nX: a\r\n\r\n"] {
            assert_eq!(repaired(head), Ok((head.to_owned(), vec![])));
        }
    }

    #[test]
    fn lines_folds_and_colons_are_repaired() {
        for (head, expected, found) in [
            ("H\nX: a\r\n\n", "H\r\nX: a\r\n\r\n", vec!["bare-lf"]),
            ("H\r\nX: a \r\n\t b\r\n\r\n", "H\r\nX: a b\r\n\r\n", vec!["folded-field"]),
            ("H\r\nX: a\r\n \r\n\r\n", "H\r\nX: a \r\n\r\n", vec!["folded-field"]),
            ("H\r\nX:\r\n a\r\n\r\n", "H\r\nX: a\r\n\r\n", vec!["folded-field"]),
            ("H\r\nX \t: a\r\n\r\n", "H\r\nX: a\r\n\r\n", vec!["space-before-colon"]),
            (
                "H\nX : a\n b\n\n",
                "H\r\nX: a b\r\n\r\n",
                vec!["space-before-colon", "folded-field", "bare-lf"],
            ),
        ] {
            assert_eq!(repaired(head), Ok((expected.to_owned(), found)), "{head:?}");
        }
    }

    #[test]
    fn lines_that_are_no_fields_are_skipped() {
        for line in [
            "nonsense ",
            "X a: b",
            ":",
            ": a",
            "X\u{e9}: a",
            "<!-- a: b -->",
            "X\x01: a",
            "HTTP/1.1 200 OK",
        ] {
            let head: &'static str = format!("H\r\n{line}\r\nX: a\r\n{line}\r\n\r\n").leak();
            let expected = "H\r\nX: a\r\n\r\n".to_owned();
            assert_eq!(repaired(head), Ok((expected, vec!["skipped-line"])), "{line}");
        }
    }

    #[test]
    fn lines_that_could_be_framing_are_not_skipped() {
        for line in [
            "Content-Length 5",
            "content length: 5",
            "CONTENT_LENGTH\x0b: 5",
            "Transfer Encoding: x",
            "Transfer-Encoding\u{a0}: x",
            "chunked",
            "a\rb",
            "a\0b",
            "nonsense\r\n a",
        ] {
            let head: &'static str = format!("H\r\nX: a\r\n{line}\r\n\r\n").leak();
            assert!(repaired(head).is_err(), "{line:?}");
        }
    }

    #[test]
    fn control_characters_in_values_become_spaces() {
        for (value, expected) in [
            ("a\rb", "a b"),
            ("a\0b", "a b"),
            ("a\x01\x7fb\x1b", "a  b "),
            ("a\r", "a "),
            ("a\tb\u{e9}", "a\tb\u{e9}"),
        ] {
            let head: &'static str = format!("H\r\nX: {value}\r\n\r\n").leak();
            let found = if value == expected { vec![] } else { vec!["control-character"] };
            assert_eq!(
                repaired(head),
                Ok((format!("H\r\nX: {expected}\r\n\r\n"), found)),
                "{value:?}"
            );
        }
    }

    #[test]
    fn control_characters_beside_framing_are_not_repaired() {
        for line in [
            "Content-Length: 5\r",
            "Content-Length: \x005",
            "Transfer-Encoding: chunked\x0b",
            "X: a\rContent-Length: 5",
            "X: a\0transfer-encoding:chunked",
        ] {
            let head: &'static str = format!("H\r\n{line}\r\n\r\n").leak();
            assert!(repaired(head).is_err(), "{line:?}");
        }
    }

    #[test]
    fn unrepairable_section_is_left_to_the_parser() {
        // The value may be that of a field which frames the message.
        let head = "H\r\nX: a\r\n b\0\r\n\r\n";
        let repaired_fold = "H\r\nX: a b\0\r\n\r\n".to_owned();
        assert_eq!(repaired(head), Ok((repaired_fold, vec!["folded-field"])));
        let head = "H\r1\r\nX: a\r\n\r\n";
        assert_eq!(repaired(head), Ok((head.to_owned(), vec![])));
        assert!(repaired("H\r\n X: a\r\n\r\n").is_err());
        assert!(repair("\tX: a\r\n\r\n".into(), SectionStart::FirstField).is_err());
    }
}
