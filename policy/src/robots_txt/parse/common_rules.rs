//! Rules as nearly all are written, read in a row: a field and a blank, a value without white space, and nothing behind it.
//! In the files that origins serve that is nine rules in ten, and each takes half of what it would take the long way.

use fearless_simd::Simd;

use super::super::pattern::DIRECTORY;
use super::super::statements::event::{EXACT, GOOGLE, PLAIN, SPECIAL, WILD};
use super::super::statements::writer::{RuleToWrite, Writer};
use super::line::{begins_allow, begins_disallow};
use crate::blocks::{BLOCK, Block, first, last, padded};
use crate::plain::is_plain;

/// So many bytes are looked at to read a rule.
const HEAD: usize = 10 + BLOCK;

/// Reads the rules that a text begins with, up to the first line that takes a closer look.
pub(super) struct CommonRules<'a, S: Simd> {
    pub(super) simd: S,
    pub(super) writer: &'a mut Writer,
    /// Lines are taken to end in so many bytes, a line feed last.
    pub(super) line_end: usize,
    /// The next rule is so many lines behind the last event of the stream.
    pub(super) distance: u8,
    /// How many rules were read.
    pub(super) rules: u32,
    /// How many of them are not plain.
    pub(super) wild_rules: u32,
}

impl<S: Simd> CommonRules<'_, S> {
    /// Reads on, and says how many bytes of the text were read.
    #[inline(always)]
    pub(super) fn read(&mut self, text: &[u8]) -> usize {
        let read = self.read_on(text);
        let rest = &text[read..];
        if rest.len() >= HEAD {
            return read;
        }
        // No rule ends in the zeros behind the text.
        let last: [u8; 2 * HEAD] = padded(rest);
        read + self.read_on(&last)
    }

    #[inline(always)]
    fn read_on(&mut self, text: &[u8]) -> usize {
        let mut rest = text;
        while let Some(head) = rest.first_chunk::<HEAD>() {
            let field = head.first_chunk().expect("10 bytes and a block");
            // The ways part here, so that where the value begins is guessed and not waited for.
            let end = if begins_disallow(field) && head[9] == b' ' {
                let block = head[10..].first_chunk().expect("10 bytes and a block");
                self.read_one(false, block).map(|end| 10 + end)
            } else if begins_allow(field) && head[6] == b' ' {
                let block = head[7..].first_chunk().expect("10 bytes and a block");
                self.read_one(true, block).map(|end| 7 + end)
            } else {
                None
            };
            let Some(end) = end else {
                break;
            };
            rest = &rest[end..];
        }
        text.len() - rest.len()
    }

    /// Reads a rule whose value, and the end of its line, are in a block; where the next line begins.
    #[inline(always)]
    fn read_one(&mut self, allow: bool, bytes: &[u8; BLOCK]) -> Option<usize> {
        let block = Block::new(self.simd, bytes);
        let line_feed = first(block.any_of([b'\n']));
        // Where the next line begins waits for nothing else.
        let length = line_feed.wrapping_sub(self.line_end - 1);
        if line_feed.max(length) >= BLOCK || self.line_end == 2 && bytes[length] != b'\r' {
            return None;
        }
        let behind = 1 << length;
        let value = behind - 1;
        let names_directory = || bytes[last(block.any_of([b'/']) & value)..].starts_with(DIRECTORY);
        if allow && names_directory() {
            return None;
        }
        let mut special = block.unusual_but_stars() & value;
        if special != 0 {
            if block.ends_value() & value != 0 {
                return None;
            }
            // What is unusual may be plain still.
            while special != 0 && is_plain(bytes[first(special)]) {
                special &= special - 1;
            }
        }
        let plain = first(block.any_of([b'*']) | special | behind);
        let ends_in_dollar = special << 1 == behind && bytes[length - 1] == b'$';
        let form = match special {
            0 if plain == length => PLAIN,
            _ if special == 0 || ends_in_dollar => WILD,
            _ => SPECIAL,
        };
        let rule = RuleToWrite {
            allow,
            seen_by: EXACT | GOOGLE,
            form,
            plain,
            value: &bytes[..length],
        };
        self.writer.push_common_rule(&rule, bytes, self.distance);
        self.distance = 1;
        self.rules += 1;
        self.wild_rules += u32::from(form != PLAIN);
        Some(length + self.line_end)
    }
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
            let [common, long] = ["", " "].map(|lead| parse(body(lead).as_bytes()));
            assert_eq!(
                common.statements().stream,
                long.statements().stream,
                "{rules:?}"
            );
        }
    }

    #[test]
    fn every_byte_anywhere_reads_as_the_long_way() {
        for byte in (0..0x80).map(char::from).chain(['é']) {
            for at in [0, 1, 5, 30, 31, 32, 33, 62, 63, 64, 65] {
                let start = "a".repeat(at);
                for rule in [
                    format!("Disallow: {start}{byte}"),
                    format!("Allow: /{start}{byte}*b$\nAllow: /*{start}*{byte}"),
                    format!("Disallow: {start}{byte}xAllow: /b"),
                    format!("Disallow:{byte}{start}\nAllow:{byte}{start}"),
                    format!("Disallow{byte} {start}\nAllow{byte} {start}"),
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
