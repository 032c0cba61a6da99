//! `wayleave check --github`, and the action for CI that uses it: read as the runner of GitHub Actions reads their output.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::crawler::crawler;
use crate::harness::tools::{both_streams, clean, output_of, project, python, run};
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{Origin, Reply};

const LIMIT: Duration = Duration::from_secs(120);

/// A workflow command, decoded.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    name: String,
    properties: Vec<(String, String)>,
    message: String,
}

impl Command {
    fn property(&self, name: &str) -> Option<&str> {
        let mut found = self.properties.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// Reads commands as the runner does: `::name properties::message` after spaces, and the older `##[name properties]message`
/// anywhere in a line; neither between `::stop-commands::MARK` and `::MARK::`.
fn commands(output: &str) -> Vec<Command> {
    let mut found = Vec::new();
    let mut mark: Option<String> = None;
    for line in output.split(['\r', '\n']) {
        if let Some(stopped_by) = &mark {
            if line.trim_start() == format!("::{stopped_by}::") {
                mark = None;
            }
            continue;
        }
        let Some(command) = current_form(line).or_else(|| older_form(line)) else { continue };
        if command.name == "stop-commands" {
            assert!(command.message.len() >= 32, "a mark can be guessed: {line}");
            mark = Some(command.message);
        } else {
            found.push(command);
        }
    }
    assert_eq!(mark, None, "commands are still stopped");
    found
}

fn current_form(line: &str) -> Option<Command> {
    let (head, message) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    Some(decoded(head, ',', message, &[("%3A", ":"), ("%2C", ",")]))
}

fn older_form(line: &str) -> Option<Command> {
    let (head, message) = line[line.find("##[")?..].strip_prefix("##[")?.split_once(']')?;
    Some(decoded(head, ';', message, &[("%3B", ";"), ("%5D", "]")]))
}

fn decoded(head: &str, between: char, message: &str, of_properties: &[(&str, &str)]) -> Command {
    let in_all = [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")];
    let decode = |text: &str, escapes: &[(&str, &str)]| {
        let escapes = escapes.iter().chain(&in_all);
        escapes.fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
    };
    let (name, properties) = head.split_once(' ').unwrap_or((head, ""));
    let properties = properties.split(between).filter_map(|part| part.split_once('='));
    Command {
        name: name.to_owned(),
        properties: properties
            .map(|(name, value)| (name.to_owned(), decode(value, of_properties)))
            .collect(),
        message: decode(message, &[]),
    }
}

/// An origin with its configuration, and a list of URLs.
struct Site {
    dir: TempDir,
    origin: Origin,
}

impl Site {
    fn new(list: &str) -> Self {
        let origin = Origin::start();
        origin.site("shop.test").disallows("/private");
        origin.site("down.test").robots_reply(Reply::new(503));
        let dir = TempDir::new().expect("a temporary directory can be made");
        let config = format!(
            "dns.overrides.\"*.test:80\" = \"{}\"\n[upstream]\nallow_private = [\"127.0.0.1/32\"]\n{}",
            origin.http,
            crawler("tried", "TriedBot").observed().into_toml()
        );
        std::fs::write(dir.path().join("wayleave.toml"), config).expect("writable");
        std::fs::write(dir.path().join("urls.txt"), list).expect("writable");
        Self { dir, origin }
    }

    fn check(&self, arguments: &[&str]) -> Output {
        let mut check = command();
        check.args(["check", "--config", "wayleave.toml", "--github"]).args(arguments);
        run(check.current_dir(self.dir.path()), b"", LIMIT)
    }

    /// Runs the steps of the action with these inputs.
    fn action(&self, inputs: &[(&str, &str)]) -> Output {
        let folder = project().join("packaging/action");
        let action = action(&folder);
        let steps = action["runs"]["steps"].as_array().expect("steps");
        let [step] = &**steps else { panic!("one step") };
        assert_eq!((&action["runs"]["using"], &step["shell"]), (&"composite".into(), &"sh".into()));
        let mut shell = clean("sh");
        shell.args(["-e", "-c", step["run"].as_str().expect("a command")]);
        shell.env("GITHUB_ACTION_PATH", &folder).current_dir(self.dir.path());
        for (variable, value) in step["env"].as_object().expect("an environment") {
            let value = value.as_str().expect("text");
            let name = value.strip_prefix("${{ inputs.").and_then(|it| it.strip_suffix(" }}"));
            let name = name.expect("an input and nothing else");
            let given = inputs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            let default = || action["inputs"][name]["default"].as_str();
            shell.env(variable, given.or_else(default).expect("given, or with a default"));
        }
        for (name, _) in inputs {
            assert!(action["inputs"][*name].is_object(), "{name} is no input");
        }
        run(&mut shell, b"", LIMIT)
    }
}

fn action(folder: &Path) -> Value {
    let to_json = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let mut reader = clean(python());
    reader.args(["-c", to_json]).arg(folder.join("action.yml"));
    serde_json::from_str(&output_of(&mut reader, b"", LIMIT)).expect("JSON")
}

const LIST: &str = "# seeds\nhttp://shop.test/open\nhttp://shop.test/private/a\nshop.test/private\n\
                    http://down.test/a\nhttp://shop.test/private/a\n";

#[test]
fn urls_that_would_be_refused_become_errors() {
    let site = Site::new(LIST);
    let output = site.check(&["--user-agent", "ExampleBot/1.0", "--from", "urls.txt"]);
    assert_eq!(output.status.code(), Some(2), "one line has no URL");
    let found = commands(&String::from_utf8_lossy(&output.stdout));
    let names: Vec<_> = found.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["error", "error", "warning", "notice"], "{found:?}");
    assert_eq!(found[0].property("file").zip(found[0].property("line")), Some(("urls.txt", "3")));
    let refusal = "http://shop.test/private/a: rule (403): Disallow: /private \
                   (line 2 of http://shop.test/robots.txt)";
    assert_eq!(found[0].message, refusal);
    assert_eq!(
        (found[1].property("title"), found[1].property("line")),
        (Some("No URL"), Some("4"))
    );
    assert_eq!(found[2].property("line"), Some("5"));
    let count = "3 URLs: 1 forwarded, 1 refused, 1 undecided, 0 observed; 1 line without a URL";
    assert_eq!(found[3].message, count);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("urls.txt:4: no http(s) URL in this line"), "{said}");
    assert!(site.origin.seen().iter().all(|line| line.ends_with("/robots.txt")));
    assert_eq!(site.origin.robots_fetches("shop.test"), 1);

    let output = site.check(&["--crawler", "tried", "http://shop.test/private"]);
    assert_eq!(output.status.code(), Some(0));
    let found = commands(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((&*found[0].name, found[0].property("file")), ("warning", None), "{found:?}");
}

#[test]
fn a_file_without_urls_is_a_mistake() {
    let site = Site::new("shop.test/private\n");
    for file in ["urls.txt", "missing.txt"] {
        let output = site.check(&["--user-agent", "ExampleBot/1.0", "--from", file]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{file}");
    }
    let site = Site::new("http://shop.test/\nhttp://shop.test:99999/\n");
    let output = site.check(&["--user-agent", "ExampleBot/1.0", "--from", "urls.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(both_streams(&output).contains("urls.txt:2: "), "{output:?}");
}

#[test]
fn the_action_fails_for_what_it_is_to_fail_for() {
    let site = Site::new(&LIST.replace("\nshop.test/private\n", "\n"));
    let basic = [("urls", "urls.txt"), ("program", BINARY), ("config", "wayleave.toml")];
    let with = |more: &[(&'static str, &'static str)]| {
        let mut inputs = basic.to_vec();
        inputs.extend(more);
        site.action(&inputs)
    };
    let bot = ("user-agent", "ExampleBot/1.0");
    for (fail_on, status) in [("refused", 1), ("undecided", 3), ("never", 0), ("nothing", 2)] {
        let output = with(&[bot, ("fail-on", fail_on)]);
        assert_eq!(output.status.code(), Some(status), "{fail_on}: {output:?}");
    }
    let output = with(&[bot]);
    assert_eq!(output.status.code(), Some(1), "refused is the default");
    assert_eq!(commands(&both_streams(&output)).len(), 3, "{output:?}");
    assert_eq!(with(&[("crawler", "tried"), ("urls", "urls.txt")]).status.code(), Some(0));
    assert_eq!(with(&[]).status.code(), Some(2), "no crawler");
    let missing = site.action(&[("urls", "missing.txt"), ("program", BINARY), bot]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    // A line without a URL is a mistake in the list, which no setting overlooks.
    let malformed =
        Site::new(LIST).action(&[basic[0], basic[1], basic[2], bot, ("fail-on", "never")]);
    assert_eq!(malformed.status.code(), Some(2), "{malformed:?}");
    assert_eq!(commands(&both_streams(&malformed)).len(), 4, "{malformed:?}");

    // An unreachable robots.txt alone fails only on request, and a file config.toml of another program is not read.
    let site = Site::new("http://down.test/\n");
    std::fs::write(site.dir.path().join("config.toml"), "baseURL = \"/\"\n").expect("writable");
    let undecided = site.action(&[basic[0], basic[1], basic[2], bot]);
    assert_eq!(undecided.status.code(), Some(0), "{undecided:?}");
    let nowhere = site.action(&[("urls", "urls.txt"), ("program", BINARY), bot]);
    assert_eq!(nowhere.status.code(), Some(0), "{nowhere:?}");
}

/// Texts that a site or a list could try to make the runner obey.
const COMMANDS: [&str; 6] = [
    "##[add-mask]a",
    "::add-mask::a",
    "%0A::add-mask::a",
    "%0D%0A::add-mask::a",
    "\u{2028}::add-mask::a",
    "%25%30%41::stop-commands::a",
];

#[test]
fn nothing_in_urls_rules_or_names_is_a_command() {
    let mut list = String::new();
    let mut robots = "User-agent: *\n".to_owned();
    for (index, command) in COMMANDS.iter().enumerate() {
        // As a line, as a URL that is refused, as one that is forwarded, and as a rule.
        list += &format!("{command}\n{command} \r{command}\nhttp://shop.test/private{command}\n");
        list += &format!("http://shop.test/open,line=9,title={command}\n");
        list += &format!("http://shop.test/{index}{command}?title=x,::error::y\n");
        robots += &format!("Disallow: /{index}{command}\n");
    }
    robots += "Disallow: /private\n";
    let site = Site::new(&list);
    let redirect = Reply::redirect(302, "http://other.test/##[add-mask]a::add-mask::b");
    site.origin.site("shop.test").robots(&robots);
    site.origin.site("moved.test").robots_reply(redirect);
    let name = "a,line=1::b%0A##[c].txt";
    let list = format!("{list}http://moved.test/##[add-mask]a\nhttp://down.test/::error::a\n");
    std::fs::write(site.dir.path().join(name), list).expect("writable");
    for bot in ["ExampleBot/1.0", "ExampleBot/1.0 ##[add-mask]a"] {
        let inputs =
            [("urls", name), ("program", BINARY), ("config", "wayleave.toml"), ("user-agent", bot)];
        let output = site.action(&inputs);
        assert_eq!(output.status.code(), Some(2), "some lines have no URL: {output:?}");
        let printed = both_streams(&output);
        let found = commands(&printed);
        assert!(found.len() > COMMANDS.len(), "{printed}");
        for command in &found {
            let is_known = ["error", "warning", "notice"].contains(&&*command.name);
            let names: Vec<_> = command.properties.iter().map(|(name, _)| &**name).collect();
            let is_whole = names == ["file", "line", "title"] || names == ["title"];
            assert!(is_known && is_whole, "{command:?} in {printed}");
            assert!(command.property("file").is_none_or(|file| file == name), "{command:?}");
            assert!(!command.message.contains(['\r', '\n']), "{command:?}");
        }
        let of_rules = found.iter().filter(|it| it.message.contains("title=x,::error::y: rule"));
        assert!(of_rules.count() >= 4, "{printed}");
    }
}

/// A value cannot become part of the step's command.
#[test]
fn the_inputs_of_the_action_are_not_read_by_a_shell() {
    let site = Site::new("http://shop.test/open\n");
    let marker = PathBuf::from("$(touch pwned)`touch pwned`\";touch pwned;'");
    std::fs::copy(site.dir.path().join("urls.txt"), site.dir.path().join(&marker))
        .expect("writable");
    let name = marker.to_str().expect("text");
    let inputs =
        [("urls", name), ("program", BINARY), ("config", "wayleave.toml"), ("user-agent", name)];
    let output = site.action(&inputs);
    assert!(!site.dir.path().join("pwned").exists(), "{output:?}");
    let inputs = [inputs[0], inputs[1], inputs[2], ("user-agent", "--version")];
    let output = site.action(&inputs);
    assert!(both_streams(&output).contains("1 URLs: ") || output.status.code() == Some(2));
}
