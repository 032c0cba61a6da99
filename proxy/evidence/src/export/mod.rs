//! Writes an export: selected decisions with everything they rest on, and the proof that nothing was changed or removed.

mod materials;
mod output;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use ring::signature::Ed25519KeyPair;

use self::materials::{DecisionEntry, ExportMaterials};
use self::output::ExportWriter;
pub use self::output::check_output_path;
use crate::chain::event::{EVENT_PREFIX, program_version};
use crate::chain::head::{public_key, sign_line};
use crate::chain::link;
use crate::digest::Sha256Digest;
use crate::exchange::{DocumentExchange, LineSubject};
use crate::manifest::{LogWindow, Manifest};
use crate::select::{SelectedLines, Selection, files_to_show};
use crate::signed_log::{SignedLog, SignedLogFile};
use crate::stand_ins::OmittedLines;

/// An export that is being written.
#[derive(Debug)]
pub struct Export {
    output: ExportWriter,
    made_at: String,
    materials: ExportMaterials,
    decisions: u64,
}

impl Export {
    /// Begins an export: a WARC file if the name says so, else a folder, which must be new or empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or folder cannot be created, or exists.
    pub fn create(out: &Path, made_at: SystemTime) -> anyhow::Result<Self> {
        let made_at = humantime::format_rfc3339_seconds(made_at).to_string();
        Ok(Self {
            output: ExportWriter::create(out, &made_at)?,
            made_at,
            materials: ExportMaterials::default(),
            decisions: 0,
        })
    }

    /// Writes the files of a log that the selection needs. `progress` is called with the number of decisions after each.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or written, or a selected line is not a decision.
    pub fn write_logs(
        &mut self,
        log: &SignedLog,
        selected: &[SelectedLines],
        selection: &Selection,
        mut progress: impl FnMut(u64),
    ) -> anyhow::Result<()> {
        for index in files_to_show(log, selected, selection) {
            let file = &log.files[index];
            self.write_log_file(file, &selected[index].lines, &mut progress)
                .with_context(|| file.path.display().to_string())?;
        }
        Ok(())
    }

    /// Writes a log file: the selected lines and all events. Digests stand in for other lines.
    fn write_log_file(
        &mut self,
        file: &SignedLogFile,
        selected: &[u64],
        progress: &mut impl FnMut(u64),
    ) -> anyhow::Result<()> {
        self.output.begin_log(file.number)?;
        let mut numbers = selected.iter().copied().peekable();
        let mut omitted = OmittedLines::default();
        let mut head = file.head.as_deref();
        file.read(|number, line| {
            if !file.is_signed(number)
                && let Some(head) = head.take()
            {
                self.write_end(&mut omitted, head)?;
            }
            let is_selected = numbers.next_if_eq(&number).is_some();
            // All events are exported: they record which files were deleted and which lines are not authentic.
            if !is_selected && !line.starts_with(EVENT_PREFIX) {
                // Those after the head are in no tree.
                let at = if file.is_signed(number) { number - 1 } else { 0 };
                omitted.push(at, Sha256Digest::of(line));
                return Ok(());
            }
            for stand_in in omitted.drain_stand_ins() {
                self.output.add_line(&stand_in, None)?;
            }
            if is_selected {
                self.write_decision(line)?;
                progress(self.decisions);
                Ok(())
            } else {
                self.output.add_line(line, None)
            }
        })?;
        for stand_in in omitted.drain_stand_ins() {
            self.output.add_line(&stand_in, None)?;
        }
        // A file that is still being written does not end in a head.
        if let Some(head) = head {
            self.output.add_line(head, None)?;
        }
        self.output.end_log()
    }

    /// Writes the head after the last signed line.
    fn write_end(&mut self, omitted: &mut OmittedLines, head: &[u8]) -> anyhow::Result<()> {
        for stand_in in omitted.drain_stand_ins() {
            self.output.add_line(&stand_in, None)?;
        }
        self.output.add_line(head, None)
    }

    fn write_decision(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let decision: DecisionEntry<'_> = serde_json::from_slice(line)?;
        let subject = LineSubject {
            url: &decision.url,
            at: &humantime::format_rfc3339_micros(decision.at).to_string(),
        };
        self.output.add_line(line, Some(subject))?;
        self.materials.add_decision(&decision, link::config_digest(line));
        self.decisions += 1;
        Ok(())
    }

    /// Writes everything that the decisions rest on, as `document` and `configuration` return it by digest. Returns the digests
    /// of files that they no longer have.
    ///
    /// # Errors
    ///
    /// Returns an error if `document` does, or if something cannot be written.
    pub fn write_materials(
        &mut self,
        mut document: impl FnMut(Sha256Digest) -> anyhow::Result<Option<Vec<u8>>>,
        mut configuration: impl FnMut(Sha256Digest) -> Option<Vec<u8>>,
    ) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut by_document: BTreeMap<Sha256Digest, Vec<&DocumentExchange>> = BTreeMap::new();
        for exchange in &self.materials.exchanges {
            // The first exchange of each document carries it in a WARC file; the others refer to the first.
            match exchange.sha256 {
                Some(sha256) => by_document.entry(sha256).or_default().push(exchange),
                None => self.output.add_exchange(exchange)?,
            }
        }
        for &sha256 in &self.materials.documents {
            match document(sha256)? {
                Some(bytes) => {
                    let exchanges = by_document.remove(&sha256).unwrap_or_default();
                    self.output.add_body(sha256, &bytes, &exchanges)?;
                }
                None => missing.push(sha256.to_string()),
            }
        }
        for &sha256 in &self.materials.configurations {
            match configuration(sha256) {
                Some(text) => self.output.add_config(sha256, &text)?,
                None => missing.push(sha256.to_string()),
            }
        }
        Ok(missing)
    }

    /// Signs the manifest and writes it, which ends the export.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn finish(
        self,
        log: &SignedLog,
        selection: &Selection,
        missing: Vec<String>,
        key: &Ed25519KeyPair,
    ) -> anyhow::Result<Manifest> {
        let manifest = Manifest {
            evidence: 1,
            program: program_version(),
            made_at: self.made_at,
            wanted: serde_json::to_value(selection)?,
            decisions: self.decisions,
            missing,
            window: Some(LogWindow::from_log(log)),
            records_sha256: self.output.records_sha256(),
            logs: self.output.logs.clone(),
            files: self.output.files.clone(),
            key: public_key(key),
        };
        let line = sign_line(&serde_json::to_vec(&manifest)?, key);
        self.output.finish(&line)?;
        Ok(manifest)
    }
}
