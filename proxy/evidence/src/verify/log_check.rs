//! Checks that the lines of a log file are complete, in order, and those that were signed.

use std::collections::BTreeSet;
use std::mem;
use std::ops::Range;

use super::findings::ExportFindings;
use crate::chain::event::{EventKind, LogEvent};
use crate::chain::head::is_signed_by;
use crate::chain::link::{NO_PREVIOUS, previous_digest};
use crate::chain::{MerkleTree, TreeHead};
use crate::digest::Sha256Digest;
use crate::manifest::{LogWindow, MANIFEST_PATH};
use crate::stand_ins::{STANDIN_PREFIX, StandIn};

/// A line that says that a file was deleted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeletedFile {
    gone: u64,
    /// The file and the line that say so.
    file: u64,
    line: u64,
}

/// Missing files, and the lines that explain them.
#[derive(Debug, Default)]
struct LogGaps {
    /// The files that the log says were deleted.
    deleted: BTreeSet<DeletedFile>,
    /// The numbers of missing files, and the path of the file that follows them.
    missing: Vec<(Range<u64>, String)>,
}

/// The end of a checked file, which the next one continues.
#[derive(Debug)]
pub struct FileEnd {
    file: u64,
    gaps: LogGaps,
    /// The digest of the last line, if that is a head that names the next file.
    last: Option<Sha256Digest>,
    /// The last line of the file, if no head follows it.
    headless: Option<String>,
    /// The number of lines that no head signs.
    unsigned_lines: u64,
    /// The id of the log, as the last head that has one says.
    log: Option<String>,
    /// The index of the key that signed the last head.
    key: usize,
    /// The number of decisions that could not be written, as the log says.
    lost: u64,
}

impl LogGaps {
    /// Returns whether an authentic line says that the file was deleted.
    fn explains(&self, gone: u64) -> bool {
        self.deleted.iter().any(|deleted| deleted.gone == gone)
    }

    /// Discards the findings about unsigned lines of a file.
    fn discard_unsigned(&mut self, file: u64, lines: &Range<u64>) {
        let is_in = |deleted: &DeletedFile| deleted.file == file && lines.contains(&deleted.line);
        self.deleted.retain(|deleted| !is_in(deleted));
    }
}

impl FileEnd {
    /// Checks, after the last file, that the log says of every missing file that it was deleted, and that everything in the log
    /// was signed.
    pub fn check_gaps(
        self,
        window: Option<&LogWindow>,
        keys: &[String],
        findings: &mut ExportFindings,
    ) {
        let gaps = &self.gaps;
        let mut named = BTreeSet::new();
        for (missing, next) in &gaps.missing {
            if let Some(gone) = missing.clone().find(|gone| !gaps.explains(*gone)) {
                let what = format!("file {gone} is missing before this one");
                findings.add_altered(&format!("{next}:1"), &what);
                named.insert(gone);
            }
        }
        if let Some(place) = self.headless.as_ref().filter(|_| !self.may_be_headless(window)) {
            let what =
                "is not the head that ends the file: it was changed, or lines after it are missing";
            findings.add_altered(place, what);
        }
        let Some(window) = window else {
            if self.unsigned_lines > 0 && self.headless.is_none() {
                // Earlier versions exported none.
                findings.add_altered(MANIFEST_PATH, "lines follow the head that ends the log");
            }
            return;
        };
        self.check_window(window, keys, &named, findings);
    }

    /// Checks the export's statements about the whole log. Missing files that are `named` were reported before.
    fn check_window(
        &self,
        window: &LogWindow,
        keys: &[String],
        named: &BTreeSet<u64>,
        findings: &mut ExportFindings,
    ) {
        let gaps = &self.gaps;
        let place = format!("{MANIFEST_PATH}:1");
        for gone in &window.missing_files {
            if !named.contains(gone) && !gaps.explains(*gone) {
                let what =
                    format!("file {gone} of the log is missing, and no line records its deletion");
                findings.add_altered(&place, &what);
            }
        }
        for foreign in &window.foreign {
            findings.add_altered(&place, foreign);
        }
        let line = window.head.as_bytes();
        let key = keys.last().map_or("", String::as_str);
        let Some(head) =
            LogEvent::parse_head(line).filter(|head| head.key == key && is_signed_by(line, key))
        else {
            return findings.add_altered(&place, "the head of the log is not signed by its key");
        };
        if self
            .log
            .as_ref()
            .is_some_and(|log| head.count.as_ref().is_some_and(|own| own.log != *log))
        {
            findings.add_altered(&place, "the head is of another log than the files");
        }
        let lines = window.unsigned_lines.max(self.unsigned_lines);
        match (lines, head.stopped) {
            (0, _) => {}
            // A process that shut down properly has signed its last line.
            (lines, true) => {
                let what = format!(
                    "after the line with which it stopped, file {} of the log has lines that somebody else wrote: {lines}",
                    head.file
                );
                findings.add_altered(&place, &what);
            }
            (lines, false) => {
                let what = format!(
                    "after line {} of file {} of the log, lines were not signed by their writer: {lines}",
                    head.lines, head.file
                );
                findings.add_unsigned(&place, &what);
            }
        }
    }

    /// Returns whether the last file need not end in a head, because none could be written since it was begun.
    fn may_be_headless(&self, window: Option<&LogWindow>) -> bool {
        window.is_some_and(|window| {
            let head = LogEvent::parse_head(window.head.as_bytes());
            window.unsigned_lines >= self.unsigned_lines
                && head.is_some_and(|head| head.file < self.file)
        })
    }

    /// Returns the number of decisions that could not be written, as the log says.
    #[must_use]
    pub fn lost_decisions(&self, window: Option<&LogWindow>) -> u64 {
        let head = window.and_then(|window| LogEvent::parse_head(window.head.as_bytes()));
        self.lost.saturating_add(head.map_or(0, |head| head.lost))
    }
}

/// The check of one file.
#[derive(Debug)]
pub struct LogCheck<'a> {
    path: &'a str,
    /// The keys of the log, in their order.
    keys: &'a [String],
    /// The index of the key that signed the last head.
    key: usize,
    gaps: LogGaps,
    before: Option<FileEnd>,
    file: u64,
    /// The numbers of the lines that are events.
    events: Vec<u64>,
    tree: MerkleTree,
    /// The digest of the previous line, if it is in the export.
    last: Option<Sha256Digest>,
    /// A line whose digest is not the one in the next line. Which of the two was changed, the line after them shows.
    suspect: Option<u64>,
    /// A line without a link, which only a torn line may be, and its digest.
    torn: Option<(u64, Sha256Digest)>,
    /// The head that ended the file.
    end: Option<TreeHead>,
    /// The number of lines after a head that does not end the file: they are not signed.
    after_head: u64,
    log: Option<String>,
    lost: u64,
    is_first: bool,
    /// The number of the last line.
    number: u64,
}

impl<'a> LogCheck<'a> {
    pub fn begin(path: &'a str, keys: &'a [String], mut before: Option<FileEnd>) -> Self {
        let gaps = before.as_mut().map(|end| mem::take(&mut end.gaps));
        let log = before.as_mut().and_then(|end| end.log.take());
        Self {
            log,
            lost: before.as_ref().map_or(0, |end| end.lost),
            after_head: 0,
            path,
            keys,
            key: before.as_ref().map_or(0, |end| end.key),
            gaps: gaps.unwrap_or_default(),
            before,
            file: 0,
            events: Vec::new(),
            tree: MerkleTree::default(),
            last: None,
            suspect: None,
            torn: None,
            end: None,
            is_first: true,
            number: 0,
        }
    }

    /// Checks the next line.
    pub fn check_line(&mut self, number: u64, line: &[u8], findings: &mut ExportFindings) {
        self.number = number;
        match &self.end {
            // Nobody signed the following lines, so they count for nothing.
            Some(head) if head.next.is_none() => return self.count_unsigned(line),
            Some(_) => self.report(number, "comes after the head that ends the file", findings),
            None => {}
        }
        if line.starts_with(STANDIN_PREFIX) {
            return self.check_stand_in(number, line, findings);
        }
        // The first line is linked to another file, so it is checked by itself.
        let event = LogEvent::parse(line).map(|event| event.kind);
        if mem::take(&mut self.is_first) {
            self.check_first_line(number, event.as_ref(), line, findings);
        } else {
            self.check_link(number, line, event.as_ref(), findings);
        }
        match &event {
            Some(EventKind::Head(head)) => self.check_head(number, line, head, findings),
            Some(EventKind::Deleted { file: gone }) => {
                self.gaps.deleted.insert(DeletedFile {
                    gone: *gone,
                    file: self.file,
                    line: self.tree.lines() + 1,
                });
            }
            Some(EventKind::Altered { file, lines, foreign_lines, .. }) => {
                self.check_altered_event(number, (*file, *lines), *foreign_lines, findings);
            }
            Some(EventKind::Lost { decisions }) => {
                self.lost = self.lost.saturating_add(*decisions);
            }
            Some(EventKind::Recovered { unsigned_lines, .. }) => {
                self.check_recovered_event(number, *unsigned_lines, findings);
            }
            _ => {}
        }
        self.events.extend(event.is_some().then(|| self.tree.lines() + 1));
        let digest = Sha256Digest::of(line);
        // The final head signs the tree of the lines before it, and is no part of it.
        if self.end.is_none() {
            self.tree.push(digest);
        }
        self.last = Some(digest);
    }

    fn count_unsigned(&mut self, line: &[u8]) {
        let stand_in = line.starts_with(STANDIN_PREFIX).then(|| serde_json::from_slice(line).ok());
        let level = stand_in.flatten().map_or(0, |read: StandIn| read.standin.level);
        self.after_head = self.after_head.saturating_add(1_u64.checked_shl(level).unwrap_or(1));
    }

    /// Reports an `altered` event: the log says that it was altered after that many signed lines of a file.
    fn check_altered_event(
        &mut self,
        number: u64,
        (file, lines): (u64, u64),
        foreign_lines: Option<u64>,
        findings: &mut ExportFindings,
    ) {
        let here = self.tree.lines() + 1;
        // If signed lines are missing, none of the lines before this one is certain.
        let begin = foreign_lines.map_or(1, |foreign| here.saturating_sub(foreign));
        // Somebody who deletes a file could also append a line that says so.
        self.gaps.discard_unsigned(self.file, &(begin..here));
        let what = match (foreign_lines, lines) {
            (Some(1), _) => format!("line {begin} of file {file} was written by somebody else"),
            (Some(_), _) => format!(
                "lines {begin} to {} of file {file} were written by somebody else",
                here - 1
            ),
            (None, 0) => format!(
                "the log was altered before this line was written: the signed part of file {file} is unknown"
            ),
            (None, _) => format!(
                "the log was altered before this line was written: line {lines} of file {file} was signed, but is missing"
            ),
        };
        self.report(number, &what, findings);
    }

    /// Reports a `recovered` event: the log says that the lines before it were not signed by the process that wrote them.
    fn check_recovered_event(&mut self, number: u64, lines: u64, findings: &mut ExportFindings) {
        let here = self.tree.lines() + 1;
        let range = here.saturating_sub(lines)..here;
        self.gaps.discard_unsigned(self.file, &range);
        let events = self.events.iter().filter(|event| range.contains(event)).count() as u64;
        let decisions = match lines.saturating_sub(events) {
            1 => "1 decision was not signed by its writer".to_owned(),
            decisions => format!("{decisions} decisions were not signed by their writer"),
        };
        let what = format!(
            "{decisions}: lines {} to {} of file {}, {events} of them events",
            range.start,
            here - 1,
            self.file
        );
        findings.add_unsigned(&format!("{}:{number}", self.path), &what);
    }

    /// Checks that the first line of a file names the file, and is linked to the head of the previous file. Files in between
    /// may have been deleted because of their age, or to make room.
    fn check_first_line(
        &mut self,
        number: u64,
        event: Option<&EventKind>,
        line: &[u8],
        findings: &mut ExportFindings,
    ) {
        let Some(EventKind::File { file, .. }) = event else {
            return self.report(number, "is not the first line of a file", findings);
        };
        self.file = *file;
        if self.path != format!("log/{file:06}.jsonl") {
            self.report(number, &format!("begins file {file} of the log"), findings);
        }
        let named = previous_digest(line);
        // Anybody may have written these numbers, so they must not overflow.
        match &self.before {
            Some(FileEnd { file: last, .. }) if last.saturating_add(1) > *file => {
                let what = format!("file {} is missing before file {file}", last.saturating_add(1));
                self.report(number, &what, findings);
            }
            Some(FileEnd { last: None, file, .. }) => {
                let what = format!("file {file} before it does not end with a head that names it");
                self.report(number, &what, findings);
            }
            // A later line may say that they were deleted.
            Some(FileEnd { file: last, .. }) if last.saturating_add(1) < *file => {
                self.gaps.missing.push((last + 1..*file, self.path.to_owned()));
            }
            Some(FileEnd { last, .. }) if *last != named => {
                self.report(number, "does not follow the head of the previous file", findings);
            }
            None if *file == 1 && named != Some(NO_PREVIOUS) => {
                self.report(number, "is the first line of the log, but follows another", findings);
            }
            _ => {}
        }
    }

    /// Checks that a line contains the digest of the previous one, or is torn and reported by the next line.
    fn check_link(
        &mut self,
        number: u64,
        line: &[u8],
        event: Option<&EventKind>,
        findings: &mut ExportFindings,
    ) {
        if let Some((torn_at, digest)) = self.torn.take() {
            // The next process writes the digest of a torn line into the line after it.
            let is_named = matches!(event, Some(EventKind::Recovered { torn_sha256, .. }) if *torn_sha256 == Some(digest));
            if !is_named {
                self.report(
                    torn_at,
                    "is incomplete, and the next line does not record that",
                    findings,
                );
            }
        }
        let Some(named) = previous_digest(line) else {
            self.torn = Some((number, Sha256Digest::of(line)));
            return;
        };
        let follows = self.last.is_none_or(|last| last == named);
        let suspect = self.suspect.take();
        match (suspect, follows) {
            // This line confirms the previous one, so the suspect itself was changed.
            (Some(place), true) => self.report_changed(place, findings),
            (Some(_), false) => self.report_changed(number - 1, findings),
            (None, false) => self.suspect = Some(number - 1),
            (None, true) => {}
        }
    }

    fn report_changed(&self, number: u64, findings: &mut ExportFindings) {
        let what = "was changed, or lines after it are missing or reordered";
        self.report(number, what, findings);
    }

    fn check_stand_in(&mut self, number: u64, line: &[u8], findings: &mut ExportFindings) {
        // Lines next to a stand-in cannot be compared with their neighbours. The root in the final head still covers them.
        self.report_unresolved(number, findings);
        self.last = None;
        let read = serde_json::from_slice::<StandIn>(line).ok();
        if !read.is_some_and(|read| self.tree.push_subtree(read.standin)) {
            self.report(number, "cannot replace lines here", findings);
        }
    }

    /// Reports a suspect or torn line that no further line can explain.
    fn report_unresolved(&mut self, number: u64, findings: &mut ExportFindings) {
        if let Some(place) = self.suspect.take() {
            self.report_changed(place, findings);
        }
        if let Some((place, _)) = self.torn.take().filter(|(place, _)| *place + 1 != number) {
            self.report(place, "is incomplete", findings);
        }
    }

    fn check_head(
        &mut self,
        number: u64,
        line: &[u8],
        head: &TreeHead,
        findings: &mut ExportFindings,
    ) {
        self.report_unresolved(number, findings);
        let mut report = |what: &str| self.report(number, what, findings);
        // A key that has handed the log over signs no later file.
        let later = self.keys.iter().skip(self.key).position(|key| *key == head.key);
        if later.is_none() {
            report("is signed by a different key than the export");
        }
        if !is_signed_by(line, &head.key) {
            report("has an invalid signature");
        }
        if head.file != self.file
            || head.next.is_some_and(|next| Some(next) != self.file.checked_add(1))
        {
            report("is the head of another file");
        }
        let log = head.count.as_ref().map(|count| count.log.as_str());
        if self.log.is_some() && log.is_some() && self.log.as_deref() != log {
            report("is the head of another log");
        }
        if head.lines != self.tree.lines() {
            report(&format!("signs {} lines, but {} precede it", head.lines, self.tree.lines()));
        } else if head.root_sha256 != self.tree.root() {
            report("does not match the lines before it");
        }
        self.key += later.unwrap_or(0);
        self.log = log.map(str::to_owned).or_else(|| self.log.take());
        self.end = Some(head.clone());
    }

    /// Ends the check after the last line.
    pub fn finish(mut self, findings: &mut ExportFindings) -> FileEnd {
        self.report_unresolved(u64::MAX, findings);
        let is_headless = self.end.is_none();
        if is_headless {
            // Nothing in it is signed, so it explains nothing.
            self.gaps.discard_unsigned(self.file, &(0..u64::MAX));
        }
        let is_ended = self.end.as_ref().is_some_and(|head| head.next.is_some());
        let before = self.before.as_ref().map_or(0, |end| end.unsigned_lines);
        let own = if is_headless { self.tree.lines() } else { self.after_head };
        FileEnd {
            file: self.file,
            gaps: self.gaps,
            last: self.last.filter(|_| is_ended),
            headless: is_headless.then(|| format!("{}:{}", self.path, self.number)),
            unsigned_lines: before.saturating_add(own),
            log: self.log,
            key: self.key,
            lost: self.lost,
        }
    }

    fn report(&self, number: u64, what: &str, findings: &mut ExportFindings) {
        findings.add_altered(&format!("{}:{number}", self.path), what);
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::time::SystemTime;

    use ring::signature::Ed25519KeyPair;

    use super::*;
    use crate::chain::head::{public_key, sign_line};
    use crate::chain::link::link_line;
    use crate::chain::tree::MerkleSubtree;
    use crate::chain::{HashChain, LogCount};

    const AT: SystemTime = SystemTime::UNIX_EPOCH;

    fn key(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    /// Returns a file of one decision with its head.
    fn log(chain: &mut HashChain, key: &Ed25519KeyPair) -> Vec<Vec<u8>> {
        let first = chain.file_event(AT).to_json();
        let mut lines = vec![chain.append(&first), chain.append(br#"{"a":1}"#)];
        lines.push(chain.final_head(key, AT));
        lines
    }

    fn check(lines: &[Vec<u8>], key: &Ed25519KeyPair) -> String {
        let public = public_key(key);
        let mut findings = ExportFindings::default();
        let mut check = LogCheck::begin("log/000001.jsonl", from_ref(&public), None);
        for (number, line) in (1..).zip(lines) {
            check.check_line(number, line, &mut findings);
        }
        check.finish(&mut findings).check_gaps(None, from_ref(&public), &mut findings);
        findings.to_string()
    }

    #[test]
    fn a_key_signs_nothing_after_it_handed_the_log_over() {
        let publics = [1, 2].map(|seed| public_key(&key(seed)));
        for (keys, seeds, is_named) in [
            (&publics[..], [1, 2, 2], false),
            (&publics, [1, 1, 2], false),
            (&publics, [1, 2, 1], true),
            (&publics[1..], [1, 2, 2], true),
            (&publics, [1, 3, 2], true),
        ] {
            let mut findings = ExportFindings::default();
            let mut chain = HashChain::new();
            let mut before = None;
            for (file, seed) in (1..).zip(seeds) {
                let path = format!("log/{file:06}.jsonl");
                let mut check = LogCheck::begin(&path, keys, before);
                let lines = log(&mut chain, &key(seed));
                for (number, line) in (1..).zip(&lines) {
                    check.check_line(number, line, &mut findings);
                }
                chain.push_line(&lines[2]);
                chain = chain.next_file();
                before = Some(check.finish(&mut findings));
            }
            before.unwrap().check_gaps(None, keys, &mut findings);
            let found = findings.to_string();
            assert_eq!(found.contains("is signed by a different key"), is_named, "{found}");
            assert_eq!(found.is_empty(), !is_named, "{found}");
        }
    }

    /// Returns the findings in files 1 and 4 of a log, where file 4 contains these events.
    fn check_gap(events: &[EventKind], window: Option<&LogWindow>) -> String {
        let key = key(1);
        let public = public_key(&key);
        let mut findings = ExportFindings::default();
        let mut chain = HashChain::new();
        let mut before = None;
        for (file, events) in [(1, &[][..]), (2, &[]), (3, &[]), (4, events)] {
            let mut lines = vec![chain.append(&chain.file_event(AT).to_json())];
            let events = events.iter().map(|kind| LogEvent::new(kind.clone(), AT).to_json());
            lines.extend(events.map(|event| chain.append(&event)));
            let head = chain.final_head(&key, AT);
            chain.push_line(&head);
            lines.push(head);
            chain = chain.next_file();
            if file == 2 || file == 3 {
                continue;
            }
            let path = format!("log/{file:06}.jsonl");
            let mut check = LogCheck::begin(&path, from_ref(&public), before);
            for (number, line) in (1..).zip(&lines) {
                check.check_line(number, line, &mut findings);
            }
            before = Some(check.finish(&mut findings));
        }
        before.unwrap().check_gaps(window, from_ref(&public), &mut findings);
        findings.to_string()
    }

    #[test]
    fn each_of_two_adjacent_missing_files_needs_explanation() {
        let deleted = |file| EventKind::Deleted { file };
        let found = check_gap(&[deleted(2)], None);
        assert!(found.contains("file 3 is missing"), "{found}");
        let found = check_gap(&[deleted(3)], None);
        assert!(found.contains("file 2 is missing"), "{found}");
        assert_eq!(check_gap(&[deleted(3), deleted(2)], None), "");
    }

    #[test]
    fn unsigned_line_explains_no_gap() {
        let unsigned = |unsigned_lines| EventKind::Recovered { unsigned_lines, torn_sha256: None };
        let events = |last| {
            let deleted = [EventKind::Deleted { file: 2 }, EventKind::Deleted { file: 3 }];
            [&deleted[..], &[last]].concat()
        };
        let found = check_gap(&events(unsigned(1)), None);
        assert!(found.contains("file 3 is missing"), "{found}");
        let foreign = EventKind::Altered {
            file: 4,
            lines: 1,
            expected_sha256: NO_PREVIOUS,
            foreign_lines: Some(2),
        };
        let found = check_gap(&events(foreign), None);
        assert!(found.contains("file 2 is missing"), "{found}");
        assert!(found.contains("lines 2 to 3 of file 4 were written by somebody else"), "{found}");
    }

    #[test]
    fn log_signed_with_another_key_is_reported() {
        let other = key(2);
        let key = key(1);
        let lines = log(&mut HashChain::new(), &other);
        assert_eq!(check(&lines, &other), "");
        let found = check(&lines, &key);
        assert!(found.contains("is signed by a different key"), "{found}");
    }

    #[test]
    fn lines_after_a_head_are_unsigned_and_count_for_nothing() {
        let key = key(1);
        let public = public_key(&key);
        let mut chain = HashChain::new();
        let mut lines = vec![chain.append(&chain.file_event(AT).to_json())];
        let count = Some(LogCount::new("a".to_owned()));
        let head = chain.sign_head(&key, AT, TreeHead { count, ..chain.tree_head(&key) });
        lines.push(head.clone());
        lines.push(chain.append(&LogEvent::new(EventKind::Deleted { file: 7 }, AT).to_json()));
        assert!(check(&lines, &key).contains("lines follow the head"), "without a window");
        let window = LogWindow {
            first_file: 1,
            missing_files: vec![7],
            unsigned_lines: 1,
            head: String::from_utf8(head).unwrap(),
            foreign: vec!["a file that is not ours".to_owned()],
        };
        let mut findings = ExportFindings::default();
        let mut check = LogCheck::begin("log/000001.jsonl", from_ref(&public), None);
        for (number, line) in (1..).zip(&lines) {
            check.check_line(number, line, &mut findings);
        }
        check.finish(&mut findings).check_gaps(Some(&window), from_ref(&public), &mut findings);
        let found = findings.to_string();
        for finding in [
            "altered: file 7 of the log is missing",
            "altered: a file that is not ours",
            "unsigned: after line 1 of file 1 of the log, lines were not signed by their writer: 1",
        ] {
            assert!(found.contains(finding), "{finding}: {found}");
        }
    }

    #[test]
    fn files_of_two_logs_with_one_key_are_no_log() {
        let key = key(1);
        let public = public_key(&key);
        let mut findings = ExportFindings::default();
        let mut chain = HashChain::new();
        let mut before = None;
        for (file, log) in [(1, "a"), (2, "a"), (3, "b")] {
            let mut lines = vec![chain.append(&chain.file_event(AT).to_json())];
            let count = Some(LogCount::new(log.to_owned()));
            let head = TreeHead { next: Some(file + 1), count, ..chain.tree_head(&key) };
            let head = chain.sign_head(&key, AT, head);
            chain.push_line(&head);
            lines.push(head);
            chain = chain.next_file();
            let path = format!("log/{file:06}.jsonl");
            let mut check = LogCheck::begin(&path, from_ref(&public), before);
            for (number, line) in (1..).zip(&lines) {
                check.check_line(number, line, &mut findings);
            }
            before = Some(check.finish(&mut findings));
        }
        let found = findings.to_string();
        assert_eq!(found, "log/000003.jsonl:2: altered: is the head of another log\n");
    }

    #[test]
    fn line_with_an_altered_link_is_blamed_and_no_other() {
        let key = key(1);
        let mut chain = HashChain::new();
        let decisions = [br#"{"a":1}"#, br#"{"a":2}"#, br#"{"a":3}"#];
        let mut lines = vec![chain.append(&chain.file_event(AT).to_json())];
        lines.extend(decisions.map(|decision| chain.append(decision)));
        lines.push(chain.final_head(&key, AT));
        assert_eq!(check(&lines, &key), "");
        lines[2] = link_line(decisions[1], Sha256Digest::of(b"a line that is not there"));
        let found = check(&lines, &key);
        assert!(found.contains("000001.jsonl:3: altered: was changed"), "{found}");
        assert_eq!(found.matches("was changed").count(), 1, "{found}");
    }

    #[test]
    fn file_with_other_number_or_predecessor_is_reported() {
        let key = key(1);
        let mut chain = HashChain::new();
        log(&mut chain, &key);
        let second = log(&mut chain.next_file(), &key);
        let found = check(&second, &key);
        assert!(found.contains("begins file 2 of the log"), "{found}");
        let mut follows_another =
            HashChain { last: Sha256Digest::of(b"a line that is not there"), ..HashChain::new() };
        let found = check(&log(&mut follows_another, &key), &key);
        assert!(found.contains("is the first line of the log"), "{found}");
    }

    #[test]
    fn head_with_wrong_next_file_is_reported() {
        let key = key(1);
        let mut chain = HashChain::new();
        let mut lines = log(&mut chain, &key);
        let head = TreeHead {
            file: 1,
            lines: 2,
            root_sha256: chain.tree.root(),
            next: Some(3),
            bytes: None,
            peaks: Vec::new(),
            stopped: false,
            count: None,
            lost: 0,
            holds: None,
            clock: Vec::new(),
            handovers: Vec::new(),
            key: public_key(&key),
        };
        let head = LogEvent::new(EventKind::Head(head), AT).to_json();
        lines[2] = sign_line(&link_line(&head, chain.last), &key);
        let found = check(&lines, &key);
        assert!(found.contains("is the head of another file"), "{found}");
    }

    #[test]
    fn largest_file_number_does_not_overflow() {
        let key = key(1);
        let mut chain = HashChain::new();
        let file = u64::MAX;
        let program = String::new();
        let first = LogEvent::new(EventKind::File { file, program }, AT).to_json();
        let head = TreeHead {
            file,
            lines: 1,
            root_sha256: NO_PREVIOUS,
            next: Some(0),
            bytes: None,
            peaks: Vec::new(),
            stopped: false,
            count: None,
            lost: 0,
            holds: None,
            clock: Vec::new(),
            handovers: Vec::new(),
            key: public_key(&key),
        };
        let head = LogEvent::new(EventKind::Head(head), AT).to_json();
        let lines = [chain.append(&first), chain.append(&head)];
        let found = check(&lines, &key);
        assert!(found.contains("begins file 18446744073709551615"), "{found}");
        assert!(found.contains("is the head of another file"), "{found}");
    }

    #[test]
    fn misaligned_stand_in_is_reported() {
        let key = key(1);
        let whole = log(&mut HashChain::new(), &key);
        let leaf = MerkleSubtree::leaf(Sha256Digest::of(&whole[1]));
        let stand_in = |standin| serde_json::to_vec(&StandIn { standin }).unwrap();
        let lines = |line: Vec<u8>| [whole[0].clone(), line, whole[2].clone()];
        assert_eq!(check(&lines(stand_in(leaf)), &key), "");
        let pair = MerkleSubtree { level: 1, ..leaf };
        for line in [stand_in(pair), b"{\"standin\":0}".to_vec()] {
            let found = check(&lines(line), &key);
            assert!(found.contains("cannot replace lines here"), "{found}");
        }
    }
}
