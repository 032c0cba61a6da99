//! `wayleave plan`: what a crawl would be refused, and how long it takes, before it begins. The sums are in `wayleave-plan`;
//! `judge` asks about each URL, `rows` keeps the answers, and `tables` shows the result as text or Markdown.

pub(super) mod judge;
mod rows;
mod tables;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use serde_json::json;
use wayleave_admission::preview::Question;
use wayleave_clock::Clock;
use wayleave_config::Config;
use wayleave_plan::known_before::{budget_left, read_history, remarks};
use wayleave_plan::{CrawlPlan, CrawlTime, OriginPlan};
use wayleave_robots_cache::KeptFetches;
use wayleave_robots_txt::{Origin, Target, excerpt};
use wayleave_upstream::Destination;

use self::judge::CrawlJudge;
use self::rows::{UrlRows, cannot_write};
use super::check::by_origin::for_each_origin;
use super::check::live::FetchedFiles;
use super::check::url_list::{UrlList, with_escaped_spaces};
use super::check::verdict;
use super::config_file::load_config;
use super::crawler_names;
use super::progress::ProgressLine;
use super::robots_fetcher::RobotsFetcher;
use super::terminal::{
    CommandResult, INCOMPLETE, UNUSABLE, counted, json_line, print_errors, print_part, unusable,
};

/// The ending of the name of the file with what was fetched, beside the list.
const STATE_ENDING: &str = ".plan";

#[derive(Debug, Args)]
#[command(
    after_help = "Prints the verdict on each URL as `wayleave check` does; for each host the requests, the delay and the hours at that pace; \
                  and for all of them the hours, what is refused by which rule, the prices that are known, and the share of hosts that \
                  turned requests away at the edge before. Hosts are crawled in parallel, and the requests of one pace unit in sequence. Only \
                  robots.txt and the documents next to it are fetched, each once.\n\
                  If it is interrupted, run it again: it goes on from FILE.plan, which is deleted when the plan is printed and nothing is \
                  undecided. A host that could not be reached is asked again after an hour.\n\
                  Exit status: 0 all forwarded or observed, 1 at least one refused, 2 usage or a line without a URL, 3 undecided because a \
                  robots.txt is unreachable or a name cannot be resolved. If several apply: 2, else 3, else 1."
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(super) struct PlanArguments {
    /// The URLs ("-": standard input): one per line, or the log of a crawl, as for `wayleave check --from`. Each URL counts once
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The crawler of the configuration that would request them [default: the only one]
    #[arg(long, value_name = "N")]
    crawler: Option<String>,
    /// The User-Agent of a crawler that is not configured
    #[arg(long, value_name = "UA", conflicts_with = "crawler")]
    user_agent: Option<String>,
    /// Print everything as one JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the summary in Markdown, for a ticket
    #[arg(long)]
    markdown: bool,
    /// Leave the verdicts on single URLs out
    #[arg(long)]
    summary: bool,
    /// Keep what is fetched in this file, and use what is there for a day [default: FILE.plan beside the list, deleted when the plan is complete]
    #[arg(long, value_name = "STATE")]
    state: Option<PathBuf>,
}

pub(super) fn run(arguments: &PlanArguments, config: Option<&Path>) -> CommandResult {
    let (config, _) = load_config(config)?;
    arguments.plan(&config).map_err(|message| unusable(&message))?
}

impl PlanArguments {
    /// Makes the plan, prints it, and returns the exit status.
    ///
    /// # Errors
    ///
    /// Says what cannot be used.
    fn plan(&self, config: &Config) -> Result<CommandResult, String> {
        let clock = Clock::start();
        let judge = CrawlJudge::new(config, self.question(config)?, clock.now())?;
        let list = UrlList::read_and_report(&self.from)?;
        let targets = list.urls.iter().map(|url| Target::parse(&with_escaped_spaces(url)));
        let targets: Vec<_> =
            targets.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let origins: Vec<_> = targets.iter().map(Target::origin).collect();
        let (kept, temporary_state) = self.open_state()?;
        let rows = UrlRows::new(&list).map_err(|error| cannot_write(&error))?;
        let rows = Mutex::new(rows);
        let files = fetched_files(config, &judge, &origins)?.keeping(kept);
        let plans = self.judge_all(&judge, &list, &origins, &files, &rows);
        // The progress line has to be gone before anything is printed.
        let kept = files.into_kept();
        let plans = plans?;
        let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut notes = Vec::new();
        if rows.mistakes > 0 {
            let lines = counted(rows.mistakes, "line");
            notes.push(format!("{lines} without a URL: not in this plan"));
        }
        let progress = ProgressLine::of_bytes("the decision log");
        let history =
            read_history(config, &plans, clock.now(), &mut notes, |bytes, total_bytes| {
                progress.set_bytes(bytes, total_bytes, "the decision log");
            });
        drop(progress);
        let crawler = judge.crawler();
        let budget = crawler.map(|crawler| budget_left(config, crawler, clock, &mut notes));
        notes.extend(remarks(config, crawler));
        let time = CrawlTime::new(&plans, &budget.unwrap_or_default());
        let plan = CrawlPlan { origins: plans, time, history };
        let is_decided = plan.sum(|origin| origin.undecided) == 0;
        let status = exit_status(&plan, rows.mistakes > 0);
        match self.print(&plan, &list, rows, judge.label(), &notes) {
            Ok(()) => {}
            // Nobody reads on, which changes no verdict.
            Err(ExitCode::SUCCESS) => return Ok(Ok(status)),
            Err(error) => return Ok(Err(error)),
        }
        if let Some(state) = temporary_state.filter(|_| is_decided) {
            // Nothing is lost if it stays: it counts for a day.
            let _ = fs::remove_file(state);
        }
        // Its lock is held until now: another command's file would be deleted.
        drop(kept);
        Ok(Ok(status))
    }

    /// Returns the question about any URL.
    fn question(&self, config: &Config) -> Result<Question, String> {
        let crawler = match (&self.crawler, &config.crawlers.crawlers[..]) {
            (Some(name), _) => {
                crawler_names::check_known(name, config)?;
                Some(name.clone())
            }
            (None, [only]) if self.user_agent.is_none() => Some(only.name.clone()),
            (None, [_, _, ..]) if self.user_agent.is_none() => {
                let crawlers = config.crawlers.crawlers.iter();
                let names: Vec<_> = crawlers.map(|crawler| &*crawler.name).collect();
                let names = names.join(", ");
                return Err(format!("whose crawl? give --crawler ({names}) or --user-agent"));
            }
            (None, _) => None,
        };
        let user_agent = self.user_agent.clone().unwrap_or_default();
        Ok(Question { crawler, user_agent, ..Question::default() })
    }

    /// Opens the file with what was fetched: the one that was named, else the one beside the list, which is returned to be deleted.
    fn open_state(&self) -> Result<(KeptFetches, Option<PathBuf>), String> {
        if let Some(path) = &self.state {
            let kept = KeptFetches::open(path);
            let named = |error: io::Error| format!("--state {}: {error}", path.display());
            return Ok((kept.map_err(named)?, None));
        }
        // Not beside /dev/stdin, which is a link to whatever it is.
        if fs::symlink_metadata(&self.from).is_ok_and(|found| found.is_file()) {
            let mut path = self.from.clone().into_os_string();
            path.push(STATE_ENDING);
            let path = PathBuf::from(path);
            match KeptFetches::open(&path) {
                Ok(kept) => return Ok((kept, Some(path))),
                Err(error) => print_errors(&format!(
                    "wayleave: note: {}: {error}; if this plan is interrupted, it begins anew\n",
                    path.display()
                )),
            }
        }
        let unnamed = KeptFetches::unnamed();
        unnamed.map(|kept| (kept, None)).map_err(|error| cannot_write(&error))
    }

    /// Asks about every URL, several origins at a time. Those that cannot be asked about are reported like other mistakes in the
    /// list.
    fn judge_all(
        &self,
        judge: &CrawlJudge,
        list: &UrlList,
        origins: &[&Origin],
        files: &FetchedFiles,
        rows: &Mutex<UrlRows>,
    ) -> Result<Vec<OriginPlan>, String> {
        let source = judge.crawler().and_then(|crawler| crawler.source_address);
        let plans = for_each_origin(origins, |indexes| {
            let origin = origins[indexes[0]];
            let mut plan = OriginPlan::new(origin.clone());
            for &index in indexes {
                let url = &list.urls[index];
                let mut mistakes = 0;
                let row = match judge.judge(url, &mut &*files, &mut plan) {
                    Ok(verdict) if self.json => json_line(&verdict),
                    Ok(verdict) => verdict::line(url, &verdict) + "\n",
                    Err(error) => {
                        let line = list.lines[index];
                        files.warn(&format!("{}:{line}", self.from.display()), &error);
                        mistakes = 1;
                        let row = json!({ "url": excerpt(url), "line": line, "error": error });
                        if self.json { json_line(&row) } else { String::new() }
                    }
                };
                let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                rows.mistakes += mistakes;
                if !self.summary && !self.markdown {
                    rows.write(index, &row).map_err(|error| cannot_write(&error))?;
                }
            }
            let unit = if plan.sent() > 0 {
                let destination = Destination { origin, source, client: None, network: None };
                files.fetcher().pace_unit(judge.pacing.share, destination)
            } else {
                plan.unit.clone()
            };
            plan.set_pace(&judge.pacing, judge.crawler(), unit);
            files.forget(origin);
            Ok(plan)
        });
        plans.into_iter().collect()
    }

    fn print(
        &self,
        plan: &CrawlPlan,
        list: &UrlList,
        rows: UrlRows,
        crawler: &str,
        notes: &[String],
    ) -> Result<(), ExitCode> {
        if self.markdown {
            return print_part(&tables::markdown(plan, crawler, notes));
        }
        if !self.json {
            if !self.summary {
                rows.print(&[], "")?;
                print_part("\n")?;
            }
            return print_part(&tables::text(plan, crawler, notes));
        }
        let mistakes = rows.mistakes;
        print_part("{\"urls\":[\n")?;
        if !self.summary {
            rows.print(&list.mistakes, ",\n")?;
        }
        print_part("\n],\"hosts\":[\n")?;
        for (number, origin) in plan.origins.iter().enumerate() {
            let separator = if number > 0 { ",\n" } else { "" };
            print_part(&format!("{separator}{}", json_line(&plan.origin_to_json(origin))))?;
        }
        print_part("\n],\"units\":[\n")?;
        for (number, unit) in plan.units_to_json().enumerate() {
            let separator = if number > 0 { ",\n" } else { "" };
            print_part(&format!("{separator}{}", json_line(&unit)))?;
        }
        let mut total = plan.total_to_json(crawler, notes);
        total["mistakes"] = mistakes.into();
        print_part(&format!("\n],\"total\":{}}}\n", json_line(&total)))
    }
}

/// Returns the files of the origins, none of which is fetched yet.
fn fetched_files(
    config: &Config,
    judge: &CrawlJudge,
    origins: &[&Origin],
) -> Result<FetchedFiles, String> {
    let fetcher = RobotsFetcher::new(config).map_err(|error| format!("{error:#}"))?;
    let identity = judge.fetch_identity(&fetcher.identities());
    let count = origins.iter().collect::<HashSet<_>>().len();
    Ok(FetchedFiles::new(count, fetcher, identity))
}

/// Returns the exit status as `wayleave check` has it.
fn exit_status(plan: &CrawlPlan, has_mistakes: bool) -> ExitCode {
    if has_mistakes {
        ExitCode::from(UNUSABLE)
    } else if plan.sum(|origin| origin.undecided) > 0 {
        ExitCode::from(INCOMPLETE)
    } else {
        ExitCode::from(u8::from(plan.sum(|origin| origin.refused) > 0))
    }
}
