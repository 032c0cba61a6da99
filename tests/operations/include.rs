//! Configurations in several files: what they mean, and when a change of one of them takes effect.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::crawler::crawler;
use crate::harness::tools;
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Wayleave, decisions, eventually};

/// Returns a crawler, and a rule with the reason `word` that refuses `/NAME`.
fn team(name: &str, word: &str) -> String {
    format!(
        "{}[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/{name}\"]\nreason = \"{word}\"\n",
        crawler(name, &format!("{name}Bot")).into_toml()
    )
}

/// Writes a file at once, as editors do.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("writable");
    fs::rename(new, path).expect("it can be renamed");
}

/// Starts a proxy that includes `teams/*.toml`, in which there is `a.toml`.
fn start(origin: &Origin) -> Wayleave {
    origin.site("one.test");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::for_origin(dir.path(), origin).set("include", "[\"teams/*.toml\"]");
    fs::create_dir(dir.path().join("teams")).expect("a directory");
    fs::write(dir.path().join("teams/a.toml"), team("a", "1")).expect("writable");
    Wayleave::start_in(dir, settings.table(&team("main", "1")))
}

/// Returns the rule that refuses `/NAME`, or nothing.
fn refused_by(proxy: &Wayleave, name: &str) -> String {
    let answer = proxy.get_as("aBot/1", &format!("http://one.test/{name}"));
    if answer.status == 200 {
        return String::new();
    }
    answer.json()["detail"].as_str().expect("a string").to_owned()
}

fn refusals(proxy: &Wayleave) -> usize {
    proxy.log().matches("the configuration is unchanged").count()
}

#[test]
fn included_files_are_watched_and_new_ones_are_noticed() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let teams = proxy.dir.path().join("teams");
    assert_eq!(
        [refused_by(&proxy, "main"), refused_by(&proxy, "a")],
        ["[[rule]] 1: 1", "[[rule]] 2: 1"]
    );
    replace(&teams.join("a.toml"), &team("a", "2"));
    eventually("a change is noticed", || refused_by(&proxy, "a") == "[[rule]] 2: 2");
    // Written in place, as by a shell.
    fs::write(teams.join("b.toml"), team("b", "3")).expect("writable");
    eventually("a new file is noticed", || refused_by(&proxy, "b") == "[[rule]] 3: 3");
    fs::write(teams.join("b.toml"), team("b", "4")).expect("writable");
    eventually("and watched", || refused_by(&proxy, "b") == "[[rule]] 3: 4");
    replace(&teams.join("0.toml"), &team("0", "5"));
    eventually("the order is by name", || refused_by(&proxy, "a") == "[[rule]] 3: 2");
    let view = || proxy.admin_get("/v1/configuration").json();
    let expected = ["0.toml", "a.toml", "b.toml"].map(|name| Some(name.as_ref()));
    eventually("the API lists the files", || {
        let view = view();
        let included = view["included"].as_array().expect("an array").iter();
        let names = included.map(|name| Path::new(name.as_str().unwrap_or("")).file_name());
        names.eq(expected)
    });
    let view = view();
    assert!(view["toml"].as_str().is_some_and(|text| text.contains("name = \"b\"")), "{view}");
}

#[test]
fn a_directory_behind_links_is_read_when_a_link_is_swapped() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let teams = proxy.dir.path().join("teams");
    // As Kubernetes mounts a ConfigMap.
    let publish = |version: &str, word: &str| {
        fs::create_dir(teams.join(version)).expect("a directory");
        fs::write(teams.join(version).join("k.toml"), team("k", word)).expect("writable");
        std::os::unix::fs::symlink(version, teams.join("..tmp")).expect("a link");
        fs::rename(teams.join("..tmp"), teams.join("..data")).expect("it can be renamed");
    };
    publish("..1", "1");
    std::os::unix::fs::symlink("..data/k.toml", teams.join("k.toml")).expect("a link");
    eventually("the link is noticed", || refused_by(&proxy, "k") == "[[rule]] 3: 1");
    publish("..2", "2");
    eventually("the swap is noticed", || refused_by(&proxy, "k") == "[[rule]] 3: 2");
    fs::write(teams.join("..2/k.toml"), team("k", "3")).expect("writable");
    eventually("a write is noticed", || refused_by(&proxy, "k") == "[[rule]] 3: 3");
}

/// Each row: an item of `include`, two shell commands, of which the second runs after the start, and a file that it then includes.
#[test]
fn directories_that_appear_or_change_later_are_watched() {
    let origin = Origin::start();
    origin.site("one.test");
    for (pattern, before, after, file) in [
        ("teams/*.toml", "", "mkdir teams", "teams/k.toml"),
        ("org/teams/*.toml", "", "mkdir --parents org/teams", "org/teams/k.toml"),
        ("org/teams/*.toml", "mkdir org", "mkdir org/teams", "org/teams/k.toml"),
        ("teams/*.toml", "mkdir v1", "ln -s v1 teams", "v1/k.toml"),
        ("teams/*.toml", "mkdir v1 v2; ln -s v1 teams", "ln -sfn v2 teams", "v2/k.toml"),
        (
            "org/teams/*.toml",
            "mkdir --parents v1/teams v2/teams; ln -s v1 org",
            "ln -sfn v2 org",
            "v2/teams/k.toml",
        ),
        ("teams/*/k.toml", "mkdir teams", "mkdir teams/a", "teams/a/k.toml"),
        ("teams/*/k.toml", "mkdir teams far", "ln -s ../far teams/a", "far/k.toml"),
        ("teams/*/k.toml", "mkdir teams far; ln -s ../far teams/a", "true", "far/k.toml"),
        ("teams/**/*.toml", "", "mkdir --parents teams/a/b", "teams/a/b/k.toml"),
        ("teams/../k*.toml", "mkdir teams", "true", "k.toml"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        let shell = |commands: &str| {
            let mut shell = Command::new("sh");
            let ended = shell.args(["-c", commands]).current_dir(&path).status();
            assert!(ended.is_ok_and(|status| status.success()), "{commands}");
        };
        shell(before);
        let settings = Settings::for_origin(dir.path(), &origin);
        let settings = settings.set("include", &format!("[{pattern:?}]"));
        let proxy = Wayleave::start_in(dir, settings.table(&team("main", "1")));
        shell(after);
        // Together longer than the proxy waits before it looks.
        for _ in 0..300 {
            assert_eq!(refused_by(&proxy, "k"), "");
        }
        for word in ["1", "2"] {
            fs::write(path.join(file), team("k", word)).expect("writable");
            eventually(&format!("{pattern} after {after}: {word}"), || {
                refused_by(&proxy, "k") == format!("[[rule]] 2: {word}")
            });
        }
    }
}

#[test]
fn half_written_included_files_never_take_effect() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let teams = proxy.dir.path().join("teams");
    let successes = || proxy.log().matches("the configuration was reloaded").count();
    let before = successes();
    // Each half is a valid file.
    let (first, second) = (team("a", "2"), team("c", "2"));
    let mut writing = fs::File::create(teams.join("a.toml")).expect("writable");
    writing.write_all(first.as_bytes()).expect("writable");
    // Another file is complete meanwhile: it has to wait, too.
    fs::write(teams.join("b.toml"), team("b", "2")).expect("writable");
    for _ in 0..300 {
        assert_eq!(refused_by(&proxy, "a"), "[[rule]] 2: 1");
    }
    writing.write_all(second.as_bytes()).expect("writable");
    drop(writing);
    eventually("all of it is read", || refused_by(&proxy, "c") == "[[rule]] 3: 2");
    assert_eq!(refused_by(&proxy, "b"), "[[rule]] 4: 2");
    eventually("once", || successes() == before + 1);
    replace(&teams.join("b.toml"), "[[crawler]]\nname = \"b\"\n[[rule]]\nac");
    eventually("a broken one is refused", || proxy.log().contains("teams/b.toml:4: rule"));
    assert_eq!(refused_by(&proxy, "b"), "[[rule]] 4: 2");
    let answer = proxy.admin_request("POST", "/v1/reload");
    assert_eq!(answer.status, 422);
    let mistakes = answer.json()["mistakes"].to_string();
    assert!(mistakes.contains("teams/b.toml:1: [[crawler]] 4.tokens"), "{mistakes}");
    replace(&teams.join("b.toml"), &team("b", "5"));
    eventually("a corrected one is read", || refused_by(&proxy, "b") == "[[rule]] 4: 5");
}

#[test]
fn files_that_are_gone_or_emptied_need_an_operator() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let a = proxy.dir.path().join("teams/a.toml");
    let rest = team("a", "1").split("[[rule]]").next().expect("one").to_owned();
    for (text, message) in [
        (Some("# nothing yet\n"), "teams/a.toml no longer has any [[rule]]"),
        (Some(&*rest), "teams/a.toml no longer has any [[rule]]"),
        (None, "teams/a.toml: a file that is gone no longer has any [[rule]] (it had 1)"),
    ] {
        let before = refusals(&proxy);
        match text {
            Some(text) => replace(&a, text),
            None => fs::remove_file(&a).expect("it is there"),
        }
        eventually("it is refused", || refusals(&proxy) == before + 1);
        assert!(proxy.log().contains(message), "{message}\n{}", proxy.log());
        assert_eq!(refused_by(&proxy, "a"), "[[rule]] 2: 1");
    }
    assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
    assert_eq!(refused_by(&proxy, "a"), "", "an operator confirmed it");
}

/// The configuration that decided is archived as one file, whatever files it was read from.
#[test]
fn the_archive_has_what_was_included() {
    let origin = Origin::start();
    let proxy = start(&origin);
    refused_by(&proxy, "a");
    let state = proxy.dir.path().join("state");
    let log = || fs::read_to_string(state.join("decisions.jsonl")).unwrap_or_default();
    eventually("a line", || decisions(&log()).count() > 0);
    let archive = fs::read_dir(state.join("configurations")).expect("there is one");
    let texts: Vec<_> = archive
        .map(|entry| fs::read_to_string(entry.expect("readable").path()).expect("text"))
        .collect();
    assert!(texts.iter().all(|text| text.contains("name = \"a\"")), "{texts:?}");
    assert!(!texts.concat().contains("include"), "{texts:?}");
}

#[test]
fn commands_name_included_files() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("teams")).expect("a directory");
    fs::write(dir.path().join("my.toml"), "include = [\"teams/*.toml\", \"x/*.toml\"]\n")
        .expect("writable");
    let a = dir.path().join("teams/a.toml");
    fs::write(&a, team("a", "1")).expect("writable");
    let run = |arguments: [&str; 2]| {
        let mut command = command();
        command.args(arguments).args(["--config", "my.toml"]).current_dir(dir.path());
        tools::run(&mut command, b"", Duration::from_secs(120))
    };
    let checked = run(["config", "check"]);
    let line = "my.toml: no mistakes, 1 crawler, 1 rule, 1 included file\n";
    assert_eq!(String::from_utf8_lossy(&checked.stdout), line);
    let warned = "wayleave: warning: include: no file matches \"x/*.toml\"\n\
        wayleave: warning: teams/a.toml:5: [[rule]] 1 (refuse) has no crawlers, so it decides for all: also for requests \
        that match no [[crawler]]\n";
    assert_eq!(String::from_utf8_lossy(&checked.stderr), warned);
    let shown = run(["config", "show"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.starts_with("# from my.toml\n# including teams/a.toml\n"), "{shown}");
    assert!(shown.contains("paths = [\"/a\"]"), "{shown}");
    fs::write(&a, "[proxy]\nmode = \"observe\"\n").expect("writable");
    let checked = run(["config", "check"]);
    assert_eq!(checked.status.code(), Some(2));
    let expected = "teams/a.toml:1: proxy: an included file has [[crawler]] and [[rule]] only: move this to the main file\n";
    assert_eq!(String::from_utf8_lossy(&checked.stderr), expected);
}

#[test]
fn rules_of_a_team_that_decide_for_others_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("teams")).expect("a directory");
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\n";
    let main = format!(
        "include = [\"teams/*.toml\"]\n{}{rule}",
        crawler("main", "MainBot").purposes(["search"]).into_toml()
    );
    fs::write(dir.path().join("my.toml"), main).expect("writable");
    let named = format!("{rule}crawlers = [\"a\"]\n");
    let purpose = format!("{rule}purposes = [\"search\"]\n");
    let a = format!("{}{named}{rule}{purpose}", crawler("a", "aBot").into_toml());
    fs::write(dir.path().join("teams/a.toml"), a).expect("writable");
    fs::write(dir.path().join("teams/b.toml"), crawler("b", "bBot").into_toml()).expect("writable");
    let mut command = command();
    command.args(["config", "check", "--config", "my.toml"]).current_dir(dir.path());
    let checked = tools::run(&mut command, b"", Duration::from_secs(120));
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let expected = "\
        wayleave: warning: teams/a.toml:9: [[rule]] 3 (refuse) has no crawlers, so it decides for all: also for \
        \"main\", \"b\", requests that match no [[crawler]]\n\
        wayleave: warning: teams/a.toml:12: [[rule]] 4 (refuse) has no crawlers, so it decides for all: also for \"main\"\n";
    assert_eq!(String::from_utf8_lossy(&checked.stderr), expected);
}

#[test]
fn links_that_lead_in_circles_are_followed_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let teams = dir.path().join("teams");
    fs::create_dir(&teams).expect("a directory");
    for link in ["one", "two", "three"] {
        std::os::unix::fs::symlink(".", teams.join(link)).expect("a link");
    }
    fs::write(teams.join("a.toml"), team("a", "1")).expect("writable");
    for pattern in ["teams/**/*.toml", "teams/*.toml", "teams/*/*.toml"] {
        let text = format!("include = [{pattern:?}]\n");
        fs::write(dir.path().join("config.toml"), text).expect("writable");
        let mut command = command();
        command.args(["config", "check", "--config", "config.toml"]).current_dir(dir.path());
        let output = tools::run(&mut command, b"", Duration::from_secs(60));
        assert_eq!(output.status.code(), Some(0), "{pattern}: {output:?}");
        let count = if pattern == "teams/*/*.toml" { "0 crawlers" } else { "1 crawler" };
        let printed = tools::both_streams(&output);
        assert!(printed.contains(count), "{pattern}: {printed}");
    }
}

#[test]
fn a_file_larger_than_the_limit_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("config.toml"), "include = [\"team.toml\"]\n").expect("writable");
    let team = fs::File::create(dir.path().join("team.toml")).expect("writable");
    team.set_len(1 << 40).expect("files may be sparse");
    let mut command = command();
    command.args(["config", "check", "--config", "config.toml"]).current_dir(dir.path());
    let output = tools::run(&mut command, b"", Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(tools::both_streams(&output).contains("team.toml: is larger than"), "{output:?}");
}

#[test]
fn a_writer_that_does_not_close_its_file_is_named() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let path = proxy.dir.path().join("teams/a.toml");
    let mut held = fs::OpenOptions::new().append(true).open(&path).expect("writable");
    held.write_all(b"# more to come\n").expect("writable");
    eventually("the log names the file", || {
        proxy.log().lines().any(|line| line.contains("has not closed") && line.contains("a.toml"))
    });
}

/// truncate(2) opens no file that it could close.
#[test]
fn a_file_that_was_cut_counts_once_it_is_touched() {
    let origin = Origin::start();
    let proxy = start(&origin);
    let path = proxy.dir.path().join("teams/a.toml");
    let (rest, cut) = (team("a", "2"), team("b", "2"));
    replace(&path, &(rest.clone() + &cut));
    eventually("both are read", || refused_by(&proxy, "b") == "[[rule]] 3: 2");
    let program = ["-e", "truncate(shift, shift) or die"];
    let ended = Command::new("perl").args(program).arg(&path).arg(rest.len().to_string()).status();
    assert!(ended.is_ok_and(|status| status.success()));
    eventually("the log says what to do", || {
        let log = proxy.log();
        log.lines().any(|line| line.contains("touch the file") && line.contains("a.toml"))
    });
    assert_eq!(refused_by(&proxy, "b"), "[[rule]] 3: 2");
    assert!(Command::new("touch").arg(&path).status().is_ok_and(|status| status.success()));
    eventually("the rest is read", || refused_by(&proxy, "b").is_empty());
}
