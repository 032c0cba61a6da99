//! A decision log, exported and verified.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;
use wayleave_audit::verify::{DecisionDeriver, DerivedCounts};
use wayleave_clock::Clock;
use wayleave_decision_log::{DecisionRecord, Journal, JournalConfig};
use wayleave_evidence::chain::event::EventKind;
use wayleave_evidence::export::Export;
use wayleave_evidence::select::{Selection, select};
use wayleave_evidence::verify::{CheckedExport, ExportFindings};
use wayleave_evidence::{Sha256Digest, SignedLog};
use wayleave_signing::SigningKey;

use super::world::{World, members_of, verdict_members};

/// A log that is written, and the verdicts of its decisions.
pub(super) struct TestLog {
    dir: TempDir,
    journal: Journal,
    verdicts: HashMap<String, Value>,
    /// Everything that the decisions rest on.
    bodies: HashMap<Sha256Digest, Vec<u8>>,
    configurations: HashMap<Sha256Digest, Vec<u8>>,
}

impl TestLog {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(config(&dir), Clock::start()).unwrap();
        Self {
            dir,
            journal,
            verdicts: HashMap::new(),
            bodies: HashMap::new(),
            configurations: HashMap::new(),
        }
    }

    /// Archives the configuration of a world, and what its origins serve now.
    pub(super) fn archive(&mut self, world: &World) {
        self.configurations.insert(world.digest, world.text.clone().into_bytes());
        self.bodies.extend(world.sites.bodies());
    }

    pub(super) fn record(&mut self, world: &World, decision: &DecisionRecord) {
        let mut line = serde_json::to_vec(decision).unwrap();
        line.push(b'\n');
        self.journal.push(&line, Some(world.digest));
        self.verdicts.insert(decision.id.to_string(), verdict_members(decision));
    }

    /// Exports all decisions, and checks that each of them is made again. Returns their number.
    pub(super) fn verify(mut self) -> usize {
        self.journal.push_event(EventKind::Stop {});
        self.journal.flush().unwrap();
        self.journal.save_head();
        let out = self.dir.path().join("out");
        self.export(&out);
        let export = CheckedExport::open(&out, None).unwrap();
        let mut findings = ExportFindings::new(false);
        let mut deriver = DecisionDeriver::new(export.check_files(&mut findings));
        let mut counts = DerivedCounts::default();
        let mut decisions = 0;
        let lines = export.check_logs(&mut findings, |line| {
            let decision: DecisionRecord = serde_json::from_slice(line).unwrap();
            decisions += 1;
            if decision.is_decided() {
                let verdict = deriver.verdict(&decision, line).unwrap();
                let expected = &self.verdicts[&decision.id.to_string()];
                let shown = String::from_utf8_lossy(line);
                assert_eq!(&members_of(verdict), expected, "{shown}");
            }
            Some(deriver.derive(&decision, line, &mut counts))
        });
        lines.unwrap();
        assert_eq!(findings.to_string(), "");
        decisions
    }

    fn export(&self, out: &std::path::Path) {
        let config = config(&self.dir);
        let key = SigningKey::read(&config.key).unwrap();
        let log = SignedLog::open(&config.path, &config.state_dir).unwrap();
        let selection = Selection::Since { since: SystemTime::UNIX_EPOCH, crawler: None };
        let selected = select(&log.files, &selection).unwrap();
        let mut export = Export::create(out, SystemTime::UNIX_EPOCH).unwrap();
        export.write_logs(&log, &selected, &selection, |_| {}).unwrap();
        let missing = export.write_materials(
            |digest| Ok(self.bodies.get(&digest).cloned()),
            |digest| self.configurations.get(&digest).cloned(),
        );
        let missing = missing.unwrap();
        assert_eq!(missing, [""; 0]);
        export.finish(&log, &selection, missing, key.pair()).unwrap();
    }
}

fn config(dir: &TempDir) -> JournalConfig {
    JournalConfig {
        path: dir.path().join("log/decisions.jsonl"),
        max_size_bytes: 1 << 30,
        max_age: Duration::from_hours(24),
        keep: Duration::from_hours(24),
        max_total_bytes: None,
        compresses: false,
        key: dir.path().join("state/evidence.key"),
        state_dir: dir.path().join("state"),
    }
}
