//! One parsed file answers the same whoever asked before: like a file parsed for each question, and like the plain model.

#![no_main]

#[path = "../../robots-txt/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
};

fn ask(access: &AccessResult, dialect: Dialect, name: &str, path: &str) -> model::Verdict {
    let tokens = [ProductToken::verbatim(name).expect("checked when the name was chosen")];
    let decision = decide(access, dialect, &tokens, &UrlPath::parse(path).expect("a path"));
    (decision.verdict() == AccessVerdict::Allow, decision.line())
}

// The first bytes choose the order of the questions; the file is the rest, with its own names and paths.
fuzz_target!(|input: &[u8]| {
    let Some((order, body)) = input.split_at_checked(8) else { return };
    // The model is slow on purpose.
    if body.len() > 4096 {
        return;
    }
    let mut names = model::questions::names_in(body);
    names.push("nobody".to_owned());
    names.retain(|name| ProductToken::verbatim(name).is_ok());
    let paths = model::questions::paths_in(body);
    let shared = AccessResult::Successful(RobotsTxt::parse(body));
    for chosen in order {
        let chosen = usize::from(*chosen);
        let name = &names[chosen % names.len()];
        let path = &paths[chosen % paths.len()];
        for &dialect in Dialect::ALL {
            let found = ask(&shared, dialect, name, path);
            let fresh = ask(&AccessResult::Successful(RobotsTxt::parse(body)), dialect, name, path);
            assert_eq!(found, fresh, "{name} {path} {dialect}");
            assert_eq!(found, model::judge_in_any(body, dialect, &[name], path), "{dialect}");
        }
    }
});
