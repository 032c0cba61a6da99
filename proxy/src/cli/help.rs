//! The help of the command line: commands in groups, and examples, which the man pages have, too.

use std::fmt::Write as _;

use clap::Command;

/// The commands by purpose, in the order in which a newcomer meets them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["serve", "run", "mcp", "gateway", "health", "env"]),
    ("Ask", &["check", "plan", "decision", "decisions", "report", "replay", "lint", "rehearse"]),
    ("Set up", &["config", "ca", "keys", "completions", "man"]),
    ("Operate", &["robots", "fleet", "drill"]),
    ("Account for it", &["evidence", "publish", "comply"]),
];

/// The examples of each command, by its name without "wayleave".
const EXAMPLES: [(&str, &[&str]); 36] = [
    (
        "",
        &[
            "wayleave",
            "eval \"$(wayleave env)\"; curl -i https://example.com/",
            "wayleave check --user-agent ExampleBot/1.0 https://example.com/page",
            "wayleave report --since yesterday",
        ],
    ),
    ("serve", &["wayleave serve --config /etc/wayleave/config.toml"]),
    (
        "run",
        &[
            "wayleave run -- curl -i https://example.com/",
            "wayleave run --crawler news --report report.json -- python3 crawl.py",
        ],
    ),
    ("mcp", &["wayleave mcp --token ExampleBot"]),
    ("gateway", &["wayleave gateway squid --url http://127.0.0.1:3141"]),
    ("health", &["wayleave health --config /etc/wayleave/config.toml"]),
    (
        "env",
        &[
            "eval \"$(wayleave env)\"",
            "wayleave env --client scrapy --proxy http://proxy.example:3128 --ca /etc/ssl/wayleave.crt",
        ],
    ),
    (
        "check",
        &[
            "wayleave check --user-agent ExampleBot/1.0 https://example.com/page",
            "wayleave check --crawler news --json - < urls.txt",
            "wayleave check --user-agent ExampleBot/1.0 --from crawl.log",
            "wayleave check --robots-only --robots robots.txt --token ExampleBot /private",
        ],
    ),
    (
        "plan",
        &[
            "wayleave plan --from urls.txt --crawler news",
            "wayleave plan --from urls.txt --crawler news --json > plan.json",
            "wayleave plan --from urls.txt --crawler news --markdown > ticket.md",
        ],
    ),
    ("decision", &["wayleave decision 01939f6e27a17a3e8d0c6f0f6a1d2b3c"]),
    (
        "decisions",
        &[
            "wayleave decisions --outcome refused --host shop.example",
            "wayleave decisions --follow --crawler news",
            "wayleave decisions --since 1d --json > decisions.jsonl",
        ],
    ),
    (
        "report",
        &[
            "wayleave report --since yesterday",
            "wayleave report --since 30d --by host --crawler news",
            "wayleave report --since 7d --format md > report.md",
        ],
    ),
    (
        "replay",
        &[
            "wayleave replay --enforce news,images --since 7d",
            "wayleave replay --rule rules.toml",
            "wayleave replay --robots now --purpose train-ai --json > opted-out.jsonl",
            "wayleave replay --config new.toml --since 7d",
            "wayleave replay --config new.toml --from config.toml --markdown > replay.md",
        ],
    ),
    ("lint", &["wayleave lint robots.txt", "wayleave lint https://example.com/robots.txt"]),
    (
        "rehearse",
        &[
            "wayleave rehearse --robots robots.txt --log access.log",
            "wayleave rehearse --robots new.txt --before robots.txt --log access.log --log access.log.1 --log access.log.2.gz",
            "wayleave rehearse --robots new.txt --before robots.txt --markdown < access.log > rehearsal.md",
        ],
    ),
    ("config", &["wayleave config default > config.toml", "wayleave config check"]),
    ("config check", &["wayleave config check --config new.toml"]),
    ("config show", &["wayleave config show --config /etc/wayleave/config.toml"]),
    ("config default", &["wayleave config default > config.toml"]),
    ("config schema", &["wayleave config schema > config.schema.json"]),
    ("ca", &["wayleave ca init", "wayleave ca show"]),
    ("keys", &["wayleave keys new news", "wayleave keys list"]),
    ("keys new", &["wayleave keys new news"]),
    ("completions", &["wayleave completions bash > /etc/bash_completion.d/wayleave"]),
    ("man", &["wayleave man /usr/local/share/man/man1"]),
    (
        "robots",
        &[
            "wayleave robots list --state unreachable",
            "wayleave robots show example.com --at yesterday",
            "wayleave robots changes --since yesterday",
            "wayleave robots refresh example.com",
        ],
    ),
    ("robots list", &["wayleave robots list --state unreachable"]),
    ("robots show", &["wayleave robots show example.com --at yesterday"]),
    ("fleet", &["wayleave fleet status", "wayleave fleet check"]),
    (
        "drill",
        &[
            "wayleave drill",
            "wayleave drill --textfile /var/lib/prometheus/node-exporter/wayleave-drill.prom",
        ],
    ),
    (
        "evidence",
        &[
            "wayleave evidence ask https://example.com/page --at yesterday",
            "wayleave evidence export --since 7d --out evidence",
            "wayleave evidence verify evidence",
        ],
    ),
    (
        "evidence ask",
        &[
            "wayleave evidence ask https://example.com/page --at 2026-11-21",
            "wayleave evidence ask --body-sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ],
    ),
    ("evidence export", &["wayleave evidence export --since 7d --out evidence.warc.gz"]),
    ("evidence hold", &["wayleave evidence hold add --host .example.com --reason letter-17"]),
    ("publish", &["wayleave publish --out public"]),
    ("comply", &["wayleave comply", "wayleave comply --json"]),
];

/// Adds groups and examples to the definition of the command line.
pub(super) fn with_examples(command: Command) -> Command {
    let template = template(&command);
    add_examples(command, "").help_template(template)
}

/// Returns the examples of a command, one a line, each behind two spaces; none if it has none.
pub(super) fn examples(name: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(command, _)| *command == name)?;
    Some(lines.iter().map(|line| format!("  {line}\n")).collect())
}

fn add_examples(command: Command, name: &str) -> Command {
    let notes = command.get_after_help().map(ToString::to_string);
    let examples = examples(name).map(|lines| format!("Examples:\n{}", lines.trim_end()));
    let parts: Vec<_> = examples.into_iter().chain(notes).collect();
    let command = if parts.is_empty() { command } else { command.after_help(parts.join("\n\n")) };
    command.mut_subcommands(|subcommand| {
        let name = format!("{name} {}", subcommand.get_name());
        add_examples(subcommand, name.trim_start())
    })
}

/// Returns the template of the program's own help, which lists commands by group: clap has one heading for all of them.
fn template(command: &Command) -> String {
    let heading = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{heading}{title}:{heading:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:<11}{literal:#}  {about}");
        }
        groups.push('\n');
    }
    format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::CommandLine;
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = CommandLine::command();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let mut named: Vec<_> = visible.map(Command::get_name).collect();
        grouped.sort_unstable();
        named.sort_unstable();
        assert_eq!(grouped, named);
    }

    #[test]
    fn every_example_is_a_command_line() {
        let command = with_examples(CommandLine::command());
        for (name, lines) in EXAMPLES {
            for line in lines {
                // The rest is the shell's.
                let line = line.replace("eval \"$(", "").replace(")\"", ";");
                let words = line.split([';', '>', '<']).next().unwrap_or_default();
                let words: Vec<_> = words.split_whitespace().collect();
                assert!(name.is_empty() || words.join(" ").contains(name), "{name}: {line}");
                let parsed = command.clone().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
