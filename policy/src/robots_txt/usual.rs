//! Rules as nearly all are written, read in a row: a field and a blank, a value without white space, and nothing behind it.
//! In the files that origins serve that is nine rules in ten, and each takes half of what it would take the long way.

use fearless_simd::Simd;

use super::line::{begins_allow, begins_disallow};
use super::pattern::DIRECTORY;
use super::stream::{PLAIN, SPECIAL, USUAL_OCTETS, WILD, Writer};
use crate::blocks::{Block, first, last, padded};
use crate::spelling::is_plain;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct UsualRules {
    /// How many octets of the text.
    pub(super) octets: usize,
    pub(super) rules: u32,
    pub(super) wild_rules: u32,
}

/// So many octets are looked at to read a rule.
const HEAD: usize = 10 + USUAL_OCTETS;

/// Reads the rules that a text begins with, up to the first line that takes a closer look. Lines are taken to end in so
/// many octets, a line feed last; the first is so many lines behind the last event of the stream.
#[inline(always)]
pub(super) fn read<S: Simd>(
    simd: S,
    text: &[u8],
    line_end: usize,
    distance: u8,
    writer: &mut Writer,
) -> UsualRules {
    let mut read = UsualRules::default();
    read_on(simd, text, line_end, distance, writer, &mut read);
    let rest = &text[read.octets..];
    if rest.len() < HEAD {
        let distance = if read.rules == 0 { distance } else { 1 };
        // No rule ends in the zeros behind the text.
        let last: [u8; 2 * HEAD] = padded(rest);
        read_on(simd, &last, line_end, distance, writer, &mut read);
    }
    read
}

#[inline(always)]
fn read_on<S: Simd>(
    simd: S,
    text: &[u8],
    line_end: usize,
    distance: u8,
    writer: &mut Writer,
    read: &mut UsualRules,
) {
    let mut rest = text;
    let mut distance = distance;
    while let Some(head) = rest.first_chunk::<HEAD>() {
        let field = head.first_chunk().expect("10 and the octets");
        // The ways part here, so that where the value begins is guessed and not waited for.
        let end = if begins_disallow(field) && head[9] == b' ' {
            let octets = head[10..].first_chunk().expect("10 and the octets");
            read_one(simd, false, octets, line_end, distance, writer, read).map(|end| 10 + end)
        } else if begins_allow(field) && head[6] == b' ' {
            let octets = head[7..].first_chunk().expect("10 and the octets");
            read_one(simd, true, octets, line_end, distance, writer, read).map(|end| 7 + end)
        } else {
            None
        };
        let Some(end) = end else {
            break;
        };
        rest = &rest[end..];
        distance = 1;
    }
    read.octets += text.len() - rest.len();
}

/// Reads a rule whose value, and the end of its line, are among these octets; where the next line begins.
#[inline(always)]
fn read_one<S: Simd>(
    simd: S,
    allow: bool,
    octets: &[u8; USUAL_OCTETS],
    line_end: usize,
    distance: u8,
    writer: &mut Writer,
    read: &mut UsualRules,
) -> Option<usize> {
    let block = Block::new(simd, octets);
    let line_feed = first(block.any_of([b'\n']));
    // Where the next line begins waits for nothing else.
    let length = line_feed.wrapping_sub(line_end - 1);
    if line_feed.max(length) >= USUAL_OCTETS || line_end == 2 && octets[length] != b'\r' {
        return None;
    }
    let behind = 1 << length;
    let value = behind - 1;
    let names_directory = || octets[last(block.any_of([b'/']) & value)..].starts_with(DIRECTORY);
    if allow && names_directory() {
        return None;
    }
    let mut special = block.unusual_but_stars() & value;
    if special != 0 {
        if block.ends_value() & value != 0 {
            return None;
        }
        // What is not usual may be plain still.
        while special != 0 && is_plain(octets[first(special)]) {
            special &= special - 1;
        }
    }
    let plain = first(block.any_of([b'*']) | special | behind);
    let ends_in_dollar = special << 1 == behind && octets[length - 1] == b'$';
    let form = match special {
        0 if plain == length => PLAIN,
        _ if special == 0 || ends_in_dollar => WILD,
        _ => SPECIAL,
    };
    writer.push_usual(allow, form, distance, octets, length, plain);
    read.rules += 1;
    read.wild_rules += u32::from(form != PLAIN);
    Some(length + line_end)
}

#[cfg(test)]
mod tests {
    use crate::robots_txt::parse::parse;

    /// A blank before a field changes nothing but that it is read the long way.
    #[track_caller]
    fn expect_as_the_long_way(rules: &str, line_end: &str) {
        // Near the end of a file, and far from it.
        for comments in [0, 1, 80] {
            let behind = format!("#{line_end}").repeat(comments);
            let body = |lead: &str| {
                let rules = rules.replace('\n', &format!("{line_end}{lead}"));
                format!("User-agent: a{line_end}{lead}{rules}{line_end}{behind}")
            };
            let [usual, long] = ["", " "].map(|lead| parse(body(lead).as_bytes()));
            assert_eq!(usual.compiled().stream, long.compiled().stream, "{rules:?}");
        }
    }

    #[test]
    fn every_octet_anywhere_reads_as_the_long_way() {
        for octet in (0..0x80).map(char::from).chain(['é']) {
            for at in [0, 1, 5, 30, 31, 32, 33, 62, 63, 64, 65] {
                let start = "a".repeat(at);
                for rule in [
                    format!("Disallow: {start}{octet}"),
                    format!("Allow: /{start}{octet}*b$\nAllow: /*{start}*{octet}"),
                    format!("Disallow: {start}{octet}xAllow: /b"),
                    format!("Disallow:{octet}{start}\nAllow:{octet}{start}"),
                    format!("Disallow{octet} {start}\nAllow{octet} {start}"),
                ] {
                    expect_as_the_long_way(&rule, "\n");
                    expect_as_the_long_way(&rule, "\r\n");
                }
            }
        }
    }

    #[test]
    fn other_lines_between_rules_change_nothing() {
        for other in [
            "",
            "# comment",
            "Sitemap: /a",
            "User-agent: b",
            "<p>",
            "Disallow",
            "allow:",
            "Disalow: /c",
        ] {
            for line_end in ["\n", "\r", "\r\n"] {
                let rules = format!(
                    "DISALLOW: /a\n{other}\nallow: /b/index.html\nAllow: /b\n{other}\nDisallow: /é"
                );
                expect_as_the_long_way(&rules, line_end);
            }
        }
        let comments = "#\n".repeat(300);
        expect_as_the_long_way(
            &format!("Disallow: /a\n{comments}Disallow: /b\nDisallow: /c"),
            "\n",
        );
    }
}
