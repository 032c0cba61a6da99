//! What is wrong with the file as a whole: its size, its encoding, its line ends.

use memchr::{memchr, memchr_iter};

use super::finding::Findings;
use crate::robots_txt::{DEFAULT_LIMIT_BYTES, GOOGLE_LINE_BYTES, numbered_lines};

pub(super) fn check(body: &[u8], findings: &mut Findings) {
    if body.starts_with(b"\xFF\xFE") || body.starts_with(b"\xFE\xFF") {
        findings.add(
            1,
            "the file is UTF-16; robots.txt is UTF-8, so no rule here is understood",
        );
        return;
    }
    if body.starts_with(b"\xEF\xBB\xBF") {
        findings.add(
            1,
            "a byte order mark precedes the first line; older readers do not skip it",
        );
    }
    let start = body.trim_ascii_start();
    if start.starts_with(b"<") {
        findings.add(1, "this looks like markup, not like a robots.txt");
    }
    check_size(body, findings);
    check_line_ends(body, findings);
    for (number, line) in numbered_lines(body) {
        check_line(number, line, findings);
    }
}

fn check_size(body: &[u8], findings: &mut Findings) {
    let Some(read) = body
        .get(..DEFAULT_LIMIT_BYTES)
        .filter(|_| body.len() > DEFAULT_LIMIT_BYTES)
    else {
        return;
    };
    let (line, _) = numbered_lines(read).last().unwrap_or((1, b""));
    let message = format!(
        "the file has {} bytes; crawlers need not read beyond 500 KiB, which end in this line",
        body.len()
    );
    findings.add(line, message);
}

fn check_line_ends(body: &[u8], findings: &mut Findings) {
    let has_lone_return = memchr_iter(b'\r', body).any(|at| body.get(at + 1) != Some(&b'\n'));
    if has_lone_return && memchr(b'\n', body).is_none() {
        findings.add(1, "lines end in CR alone; many readers see one long line");
    }
}

fn check_line(number: u32, line: &[u8], findings: &mut Findings) {
    if memchr(0, line).is_some() {
        findings.add(
            number,
            "there is a NUL byte here; to Google the line ends before it",
        );
    }
    if line.len() > GOOGLE_LINE_BYTES {
        let message = format!(
            "the line has {} bytes; Google reads {GOOGLE_LINE_BYTES} of them",
            line.len()
        );
        findings.add(number, message);
    }
    if std::str::from_utf8(line).is_err() {
        findings.add(
            number,
            "the line is not UTF-8; its bytes are compared as they are",
        );
    }
}
