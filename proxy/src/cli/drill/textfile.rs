//! The results as metrics in a file, for the textfile collector of node_exporter.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use tempfile::Builder;

use super::report::{DrillReport, DrillResult};

/// The permissions of the file: the collector is another user.
const MODE: u32 = 0o644;

/// Replaces `file` by the metrics of a report. A collector sees the old file or the new one, and no part of either.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub(super) fn write(file: &Path, report: &DrillReport) -> anyhow::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The collector reads *.prom: this one has another end.
    let mut beside = Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(dir)?;
    beside.write_all(to_text(report).as_bytes())?;
    // The umask may have taken some.
    beside.as_file().set_permissions(Permissions::from_mode(MODE))?;
    beside.persist(file)?;
    Ok(())
}

fn to_text(report: &DrillReport) -> String {
    let mut text = "# HELP wayleave_drill_results The results of the last drill: 1, by what must be refused.\n\
                    # TYPE wayleave_drill_results gauge\n"
        .to_owned();
    for found in &report.families {
        for result in DrillResult::ALL {
            let value = u8::from(found.verdict.result == result);
            let family = found.family.as_str();
            let result = result.as_str();
            let _ = writeln!(
                text,
                "wayleave_drill_results{{family=\"{family}\",result=\"{result}\"}} {value}"
            );
        }
    }
    let seconds = report.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    text + "# HELP wayleave_drill_timestamp_seconds The time of the last drill.\n\
            # TYPE wayleave_drill_timestamp_seconds gauge\n"
        + &format!("wayleave_drill_timestamp_seconds {seconds}\n")
}
