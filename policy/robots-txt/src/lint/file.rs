//! Findings about the file as a whole: its size, encoding and line ends.

use memchr::{memchr, memchr_iter};

use super::finding::FindingList;
use crate::robots_txt::{
    DEFAULT_LIMIT_BYTES, GOOGLE_LINE_BYTES, LineField, exact_statement, numbered_lines,
};

/// Returns whether the file is not a robots.txt at all, and reports that once instead of line by line.
pub(super) fn is_foreign(body: &[u8], findings: &mut FindingList) -> bool {
    // Servers that answer every path with their front page are a common source of foreign files.
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
    let message = if body.starts_with(b"\xFF\xFE") || body.starts_with(b"\xFE\xFF") {
        "the file is UTF-16; robots.txt is UTF-8, so no rule here is understood"
    } else if text.starts_with(b"<") {
        "this is markup, not a robots.txt: crawlers will probably find no rules in it"
    } else if memchr(0, body).is_some() && !has_rules(body) {
        "this is binary, or not UTF-8: it has NUL bytes and no rules"
    } else {
        return false;
    };
    findings.error(1, message);
    true
}

fn has_rules(body: &[u8]) -> bool {
    let mut fields =
        numbered_lines(body).filter_map(|(_, line)| Some(exact_statement(line)?.field));
    fields.any(|field| field != LineField::Other)
}

pub(super) fn check(body: &[u8], reads_google: bool, findings: &mut FindingList) {
    if body.starts_with(b"\xEF\xBB\xBF") {
        findings.note(1, "a byte order mark precedes the first line; older readers do not skip it");
    }
    check_size(body, findings);
    check_line_ends(body, findings);
    for (number, line) in numbered_lines(body) {
        check_line(number, line, reads_google, findings);
    }
}

fn check_size(body: &[u8], findings: &mut FindingList) {
    // RFC 9309 §2.5: crawlers have to read at least this much; Google reads no more.
    let Some(read) = body.get(..DEFAULT_LIMIT_BYTES).filter(|_| body.len() > DEFAULT_LIMIT_BYTES)
    else {
        return;
    };
    let (line, _) = numbered_lines(read).last().unwrap_or((1, b""));
    let message = format!(
        "the file has {} bytes; crawlers may ignore everything after the first 500 KiB, which end in this line",
        body.len()
    );
    findings.warning(line, message);
}

fn check_line_ends(body: &[u8], findings: &mut FindingList) {
    // Readers that only know LF see one line, and with it only one rule.
    let has_lone_return = memchr_iter(b'\r', body).any(|at| body.get(at + 1) != Some(&b'\n'));
    if has_lone_return && memchr(b'\n', body).is_none() {
        findings.warning(1, "lines end in CR alone; many readers see one long line");
    }
}

fn check_line(number: u32, line: &[u8], reads_google: bool, findings: &mut FindingList) {
    if memchr(0, line).is_some() {
        findings.warning(number, "there is a NUL byte here; for Google, the line ends before it");
    }
    if reads_google && line.len() > GOOGLE_LINE_BYTES {
        let message = format!(
            "the line has {} bytes; Google reads the first {GOOGLE_LINE_BYTES}",
            line.len()
        );
        findings.warning(number, message);
    }
    if std::str::from_utf8(line).is_err() {
        findings.warning(number, "the line is not UTF-8; its bytes are compared as they are");
    }
}
