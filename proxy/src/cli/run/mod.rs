//! `wayleave run`: runs a command that can reach nothing but wayleave, whatever it knows of proxies.

mod running;
mod settings;
mod summary;
mod trust;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use wayleave_isolation::{self as isolation, BlockedSignals, Enclosure, FAILED, MountPlan};
use wayleave_signing::create_private_dir;
use wayleave_transport::descriptors;
use wayleave_transport::tls::intercept::CertificateAuthority;
use wayleave_upstream::egress::ParentProxy;

use self::settings::RunSettings;
use super::terminal::{CommandResult, print_errors, unusable};
use crate::server;

/// The exit statuses of a shell for a command that cannot be executed, or does not exist.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// The descriptors of a proxy for its listeners, files and a few connections; and those of each of its threads.
const DESCRIPTORS: u64 = 32;
const DESCRIPTORS_OF_THREAD: u64 = 8;

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The configured crawler that all requests are of [default: each request shows it, as always]
    #[arg(long, value_name = "NAME", conflicts_with = "proxy")]
    crawler: Option<String>,
    /// Use this running wayleave, which decides and records everything, such as http://NAME:PASSWORD@127.0.0.1:3128
    #[arg(long, value_name = "URL")]
    proxy: Option<ParentProxy>,
    /// The certificate of the running wayleave's CA [default: ca.crt of the configuration]
    #[arg(long, value_name = "FILE", requires = "proxy")]
    ca: Option<PathBuf>,
    /// Use this file as the robots.txt of an origin, to try it out, such as https://example.com=new.txt; may be repeated
    #[arg(long, value_name = "ORIGIN=FILE", conflicts_with = "proxy", value_parser = parse_pinned)]
    robots: Vec<(String, PathBuf)>,
    /// Write the summary to this file, too, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The TCP ports on which origins can be reached
    #[arg(
        long,
        value_name = "PORTS",
        value_delimiter = ',',
        default_value = "80,443",
        value_parser = parse_port
    )]
    ports: Vec<u16>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The arguments of the process that makes the namespaces.
#[derive(Debug, Args)]
pub(super) struct EntryArguments {
    /// The socket at which wayleave listens
    control: PathBuf,
    #[arg(long = "port")]
    ports: Vec<u16>,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// The arguments of the processes inside.
#[derive(Debug, Args)]
pub(super) struct InsideArguments {
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected ports such as 80,443".to_owned()),
        Ok(53) => Err("port 53 is taken: DNS is answered there".to_owned()),
        Ok(port) => Ok(port),
    }
}

/// Splits `ORIGIN=FILE`. No origin has the character in it.
fn parse_pinned(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((origin, file)) if !origin.is_empty() && !file.is_empty() => {
            let file = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
            Ok((origin.to_owned(), file))
        }
        _ => Err("expected ORIGIN=FILE, such as https://example.com=new.txt".to_owned()),
    }
}

pub(super) fn run(arguments: &RunArguments, file: Option<&Path>) -> CommandResult {
    check_descriptors().map_err(|error| failed(&error))?;
    let settings = match &arguments.proxy {
        Some(proxy) => settings::load_for_running(proxy, arguments.ca.as_deref(), file)?,
        None => load_settings(arguments, file)?,
    };
    // Before the command runs: a summary that cannot be written would be noticed too late.
    let report = match arguments.report.as_ref().map(File::create).transpose() {
        Ok(report) => report,
        Err(error) => return Err(unusable(&format!("the report cannot be written: {error}"))),
    };
    run_with_proxy(arguments, &settings, report).map(ExitCode::from).map_err(|error| failed(&error))
}

/// Checks that the process may have the descriptors that a proxy needs. Without them, the runtimes would panic at some point.
fn check_descriptors() -> anyhow::Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let needed = DESCRIPTORS + DESCRIPTORS_OF_THREAD * threads;
    let open = fs::read_dir("/proc/self/fd").map_or(u64::MAX, |open| open.count() as u64);
    let limit = descriptors::limit();
    ensure!(
        limit.saturating_sub(open) >= needed,
        "too few files may be open: {limit}, of which {needed} must be free; raise the limit (`ulimit -n 1024`)"
    );
    Ok(())
}

/// Returns the settings without `--proxy`: those of the proxy that runs with the configuration, or of one of our own.
fn load_settings(arguments: &RunArguments, file: Option<&Path>) -> Result<RunSettings, ExitCode> {
    let crawler = arguments.crawler.as_deref();
    match (running::find(file)?, crawler) {
        (None, _) => settings::load(file, crawler, &arguments.robots),
        (Some(proxy), _) if !arguments.robots.is_empty() => Err(unusable(&format!(
            "{url} runs with this configuration, and --robots cannot be given to it: stop it, or set [[robots.pinned]] in its \
             configuration",
            url = proxy.url(),
        ))),
        (Some(proxy), None) => {
            let url = proxy.url();
            print_errors(&format!("wayleave: using {url}, which runs with this configuration\n"));
            settings::load_for_running(&proxy, None, file)
        }
        (Some(proxy), Some(name)) => Err(unusable(&format!(
            "{url} runs with this configuration, and --crawler cannot be given to it: type \
             `wayleave run --proxy http://{name}:PASSWORD@{authority} -- COMMAND`, with the user name and password of its \
             `match`; or, if it has none, leave --crawler out",
            url = proxy.url(),
            authority = proxy.authority(),
        ))),
    }
}

/// Runs the command with a proxy of its own. Returns the command's exit status.
fn run_with_proxy(
    arguments: &RunArguments,
    settings: &RunSettings,
    report: Option<File>,
) -> anyhow::Result<u8> {
    // Before the first thread, which would take signals otherwise.
    let signals = BlockedSignals::block()?;
    let scratch = tempfile::Builder::new().prefix("wayleave-run-").tempdir()?;
    let dir = scratch.path();
    let mut ports = arguments.ports.clone();
    ports.sort_unstable();
    ports.dedup();
    let set_variables = |command: &mut _| trust::set_variables(command, dir);
    let started = Enclosure::start(dir, &ports, &arguments.command, set_variables)?;
    let Some((enclosure, sockets)) = started else {
        return Ok(FAILED);
    };
    let config = &settings.config;
    let certificate = match &settings.certificate {
        Some(certificate) => certificate.clone(),
        None => {
            CertificateAuthority::load_or_create(&config.https.ca_dir)?.certificate_pem().to_owned()
        }
    };
    let mut plan = MountPlan::default();
    plan.resolve_names_inside(dir).context("writing the files that resolve names")?;
    trust::prepare(dir, &certificate, &mut plan)?;
    plan.hide_services().context("looking for the sockets of services")?;
    let log = open_log(&config.state.dir)?;
    let run = move || enclosure.run(&plan, &signals);
    let (status, tally) = server::run_for_command(config, sockets, log, run)?;
    // Only a running proxy's certificate is among the settings.
    let is_decided_here = settings.certificate.is_none();
    let summary = if is_decided_here { summary::text } else { summary::text_of_connections };
    print_errors(&summary(&tally));
    if let Some(mut report) = report {
        // The status remains the command's, which has done its work.
        if let Err(error) = report.write_all(summary::report(&tally, is_decided_here).as_bytes()) {
            print_errors(&format!("wayleave: the report cannot be written: {error}\n"));
        }
    }
    Ok(status)
}

/// Opens the file of the proxy's log: the terminal is the command's.
fn open_log(state_dir: &Path) -> anyhow::Result<File> {
    let path = state_dir.join("run.log");
    create_private_dir(state_dir)
        .and_then(|()| File::options().create(true).append(true).open(&path))
        .with_context(|| format!("opening {}", path.display()))
}

/// Runs the process that makes the namespaces.
pub(super) fn enter(arguments: &EntryArguments) -> CommandResult {
    let EntryArguments { control, ports, command } = arguments;
    let entered = isolation::enter(control, ports, command);
    entered.map(ExitCode::from).map_err(|error| failed(&error))
}

/// Runs process 1 inside.
pub(super) fn init(arguments: &InsideArguments) -> CommandResult {
    let ended = isolation::run_init(&arguments.command);
    ended.map(ExitCode::from).map_err(|error| failed(&error))
}

/// Becomes the command.
pub(super) fn execute(arguments: &InsideArguments) -> CommandResult {
    let error = isolation::execute(&arguments.command);
    let program = Path::new(&arguments.command[0]).display();
    print_errors(&format!("wayleave: {program}: {error}\n"));
    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
    Err(ExitCode::from(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }))
}

/// Prints why there is no status of a command, and returns the status for that.
fn failed(error: &anyhow::Error) -> ExitCode {
    print_errors(&format!("wayleave: {error:#}\n"));
    ExitCode::from(FAILED)
}
